#include "keys/secret_output.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "options/command.h"

enum { DAYS_MAX = 36500 };

// A file that a shell has created is accessible as its umask allows. False if the access of other users cannot be removed.
static bool close_to_others(int fd) {
    struct stat s;
    return fstat(fd, &s) || !S_ISREG(s.st_mode) || fchmod(fd, 0600) == 0;
}

// Past the buffer of stdio, which stays in memory.
static bool write_all(const char *text) {
    size_t size = strlen(text), done = 0;
    ssize_t n = 0;
    while (done < size &&
           ((n = write(STDOUT_FILENO, text + done, size - done)) > 0 || errno == EINTR))
        done += n > 0 ? (size_t)n : 0;
    return done == size;
}

int secret_print(const char *command, char *text) {
    int code = 0;
    if (!close_to_others(STDOUT_FILENO)) {
        fprintf(stderr, "gradwire %s: the file cannot be made unreadable for other users: %s\n",
                command, strerror(errno));
        code = EXIT_OWN_FAILURE;
    } else if (!write_all(text)) {
        fprintf(stderr, "gradwire %s: cannot write standard output: %s\n", command,
                strerror(errno));
        code = EXIT_OUTPUT_LOST;
    }
    explicit_bzero(text, strlen(text));
    return code;
}

bool days_parse(const char *text, int *out) {
    char *end;
    long days = strtol(text, &end, 10);
    if (end == text || *end || days < 1 || days > DAYS_MAX) return false;
    *out = (int)days;
    return true;
}
