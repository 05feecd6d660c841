// The text of an errno, with the limit of this process that was reached:
//
//     error_set(error, GW_SYSTEM, "socket: %s", system_error_text(errno).text);
//     // "socket: Too many open files (ulimit -n is 14)"
#ifndef BASE_SYSTEM_ERROR_H
#define BASE_SYSTEM_ERROR_H

typedef struct system_text {
    char text[160];
} system_text;

system_text system_error_text(int error);

// For pthread_create and fork, whose EAGAIN may be caused by the limit of processes or of memory.
system_text system_thread_error_text(int error);

#endif
