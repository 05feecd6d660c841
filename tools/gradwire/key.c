// gradwire key: a new key of a job.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "command.h"
#include "net/secret.h"

static const char help[] =
    "usage: gradwire key > FILE\n\n"
    "Prints a new key for a job, which is a secret. All workers of a job are given the same one, "
    "by\n"
    "gradwire run --key FILE, by GW_KEY_FILE=FILE, or by the option .key of gw_rpc_init; then "
    "what\n"
    "they say to each other is encrypted, and nobody without it is let in. FILE must be readable "
    "by\n"
    "its owner alone: gradwire key sets the mode of the file that it prints to, and workers "
    "refuse\n"
    "another one.\n\n"
    "A file may have two keys, a line each. The first is the one that workers use when they "
    "connect,\n"
    "both are taken from those who connect: to change the key of workers that come and go, add "
    "the\n"
    "new one behind the old one for all, then put it in front, then remove the old one.\n";

// A file that a shell has made is open to all that its umask lets in. False if it cannot be closed
// to them.
static bool close_to_others(int fd) {
    struct stat s;
    return fstat(fd, &s) || !S_ISREG(s.st_mode) || fchmod(fd, 0600) == 0;
}

int key_command(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "--help") == 0) {
        printf("%s", help);
        return 0;
    }
    if (argc > 1) {
        fprintf(stderr, "gradwire key: it takes no \"%s\"; see gradwire key --help\n", argv[1]);
        return EXIT_USAGE;
    }
    char line[SECRET_LINE_MAX];
    gw_error error;
    if (!close_to_others(STDOUT_FILENO)) {
        fprintf(stderr, "gradwire key: the file cannot be closed to others: %s\n", strerror(errno));
        return EXIT_OWN_FAILURE;
    }
    if (secret_make_line(line, &error)) {
        fprintf(stderr, "gradwire key: %s\n", error.text);
        return EXIT_OWN_FAILURE;
    }
    // Past the buffer of stdio, which stays in memory.
    size_t size = strlen(line), done = 0;
    ssize_t n = 0;
    while (done < size &&
           ((n = write(STDOUT_FILENO, line + done, size - done)) > 0 || errno == EINTR))
        done += n > 0 ? (size_t)n : 0;
    explicit_bzero(line, sizeof line);
    if (done == size) return 0;
    fprintf(stderr, "gradwire key: cannot write standard output: %s\n", strerror(errno));
    return EXIT_OUTPUT_LOST;
}
