// error.json: why a process has failed, for its launcher and for people, in the form of torchelastic's error files:
//
//     { "message": { "message": "worker2: train.csv: no such file",
//                    "extraInfo": { "timestamp": "1700000000", "py_callstack": "" } },
//       "gradwire": { "status": "not found", "worker": "worker2", "slot": 2, "attempt": 0,
//                     "made_by": "ps", "function": "load" } }
//
// |made_by| is the worker that has made the error; |function| is the called function, "" if no function was called.
//
// A launcher names the file in TORCHELASTIC_ERROR_FILE. A file is written whole or not at all. A failure to write the
// file has no other effect. Threads: any.
#ifndef AGENT_SETTINGS_ERROR_FILE_H
#define AGENT_SETTINGS_ERROR_FILE_H

#include <gradwire/status.h>

// What the file has. Texts need not be UTF-8.
typedef struct error_report {
    const char *message;
    const char *status;     // in words, or how the process has ended
    const char *worker;     // its name; "": it has none
    int slot, attempt;      // -1: not known
    const gw_error *error;  // NULL: none
} error_report;

// Returns false, with errno, if the file could not be written.
bool error_file_write(const char *path, const error_report *r);

// Reads the message; false if there is no such file, or none of this form.
bool error_file_read(const char *path, char *out, size_t size);

// The root scope of this process closes with |error|: writes the file that the launcher has named, if any.
void error_file_report(const char *worker, const gw_error *error);

// The error that this process has reported has not ended its work: removes the file.
void error_file_withdraw(void);

#endif
