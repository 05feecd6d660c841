// The gradwire command, and others, for tests: started with arguments, read, signalled, waited for.
//
// No function here has its own time limit: the limit of the test finds an event that does not occur.
#ifndef TESTS_LAUNCHED_H
#define TESTS_LAUNCHED_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

// A running program.
typedef struct launched {
    pid_t pid;
    int pid_fd;          // readable when it has ended
    int in_fd;           // -1: closed
    int out_fd, err_fd;  // its output
} launched;

// A program that has ended.
typedef struct result {
    int code;         // 128 + n: killed by signal n
    char *out, *err;  // the rest of what it printed; ended by NUL, whatever else is in it
    size_t out_size, err_size;
} result;

typedef struct path {
    char text[256];
} path;

#define LAUNCH(...) launch((const char *const[]){ "gradwire", __VA_ARGS__, NULL })
#define RUN(...) finish(LAUNCH(__VA_ARGS__))

// The path of the command, in the folder of the tests' program.
const char *launched_path(void);

// Starts it.
launched launch(const char *const arguments[]);

// The same with streams that the test has made; -1: a pipe. The launched one has -1 where it has no
// pipe.
launched launch_with(const char *const arguments[], int in_fd, int out_fd, int err_fd);

// Starts a command of the shell, in the folder of our programs.
launched launch_command(const char *format, ...) __attribute__((format(printf, 1, 2)));
bool has_program(const char *name);  // on the path of the shell

// Reads standard output (or error) up to the first line that begins with |beginning|, and returns
// the rest of that line in memory that the next call uses again.
const char *read_line(int fd, const char *beginning);

void send_line(launched *l, const char *line);  // to standard input
void close_input(launched *l);
result finish(launched l);  // reads all that is left and waits
void forget(result r);

// How often |part| is in |text|.
int count_in(const char *text, const char *part);

// Opens a process by its number, to wait for its end; the number is from its output.
int open_process(const char *number);
bool has_ended(int process_fd);
void wait_for_end(int process_fd);  // and closes it

// The link process of a launcher, which exchanges messages with the other hosts; waits until it exists.
pid_t find_link(pid_t launcher);
pid_t find_child(pid_t launcher,
                 const char *name);  // the same of another one, such as "gradwire-page"

// Makes a folder for the test, removed when the test has passed.
path make_folder(void);
path in_folder(path folder, const char *name);
path make_fifo(path folder, const char *name);
void write_fifo(path fifo);  // a line: continues a shell that reads one from it
void await_in_file(const char *file, const char *text);  // until the file contains it
path make_key(path folder);  // the key of a job, in a file that only its user can read
void remove_folder(path folder);

#endif
