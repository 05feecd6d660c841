// The home of checkpoints: the folder in which each checkpoint is a folder. docs/protocol/checkpoint.md.
//
// Threads: any; another process may change the home at any time.
#ifndef CHECKPOINT_HOME_H
#define CHECKPOINT_HOME_H

#include "base/scope.h"

#define HOME_INDEX "index.json"
#define HOME_INDEX_TEMPORARY "index.json.tmp"
#define HOME_MARK "writing"

// The name of a checkpoint: "step-N", or "step-N.K" for |again| K.
typedef struct home_name {
    int64_t step;  // -1: there is none
    int64_t again;
} home_name;

enum { HOME_PATH_BYTES = 4096 };

// "home/step-4/index.json"; texts of |s|.
const char *home_path(gw_scope *s, const char *home, home_name name);
const char *home_file(gw_scope *s, const char *checkpoint, const char *file);

// The newest checkpoint that has an index and is older than |before|, if |before| is one.
home_name home_find_newest(const char *home, home_name before);

// Whether |home| can be listed, or does not exist. False with |s| failed.
bool home_check(gw_scope *s, const char *home);

// A folder for a checkpoint that is being written, and its mark, with a lock.
typedef struct home_draft {
    home_name name;
    int lock_fd;     // -1: none
    uint64_t token;  // in the mark
} home_draft;

// Makes the home if it is missing, removes what lost writers have left, and makes a new folder. |step| -1: one more
// than the newest. False with |s| failed.
bool home_make(gw_scope *s, const char *home, int64_t step, uint64_t token, home_draft *out);
// Whether the folder |checkpoint| is here, with that mark.
bool home_has_mark(gw_scope *s, const char *checkpoint, uint64_t token);
// Removes the mark and its lock.
void home_unmark(gw_scope *s, const char *checkpoint, home_draft *d);

// Removes the folder |checkpoint| and all files that a checkpoint has; others stay, and so does the folder then.
void home_remove(gw_scope *s, const char *checkpoint);
// Removes checkpoints of steps before |step| beyond the newest |keep| - 1.
void home_remove_older(gw_scope *s, const char *home, int64_t step, int keep);

#endif
