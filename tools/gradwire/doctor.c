// gradwire doctor: two workers on this host, how they reach each other, and why not better.
//
// It uses the library, as a program would. The lines about the system explain what the two workers have found.
#include <gradwire.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "options/command.h"
#include "net/transport/interfaces.h"
#include "options/usage.h"

enum { CALLS = 500, TENSORS = 20, FLOATS = 1 << 20 };

GW_FUNCTION(doctor_echo, GW_INLINE, "tensor") {
    return gw_arg(s, a, 0);
}
GW_FUNCTION(doctor_null, GW_INLINE, "") {
    (void)s;
    (void)a;
    return gw_none();
}

static double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *us, int count) {
    qsort(us, (size_t)count, sizeof *us, by_size);
    return us[count / 2];
}

static void examine(gw_scope *root) {
    double calls[CALLS], tensors[TENSORS];
    gw_tensor *x = gw_ones(root, GW_F32, FLOATS);
    for (int i = 0; i < CALLS && gw_ok(root); i++) {
        double start = now_us();
        gw_rpc_sync(root, 1, "doctor_null");
        calls[i] = now_us() - start;
    }
    for (int i = 0; i < TENSORS && gw_ok(root); i++) {
        double start = now_us();
        gw_scope *s = gw_scope_open(root);
        gw_rpc_sync(s, 1, "doctor_echo", x);
        gw_scope_close_up(s);
        tensors[i] = now_us() - start;
    }
    const char *path = gw_rpc_path(root, gw_rpc_worker(root, 1));
    if (!gw_ok(root)) return;
    printf("workers of this host    %s\n", path);
    printf("a call and its reply    %.1f us\n", median(calls, CALLS));
    printf("4 MB sent and returned  %.0f us\n", median(tensors, TENSORS));
}

static int work(int rank, const char *file) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    gw_scope *root = gw_scope_open(NULL);
    gw_rpc_init(root, .name = gw_format(root, "doctor%d", rank), .rank = rank, .world_size = 2,
                .init_method = gw_format(root, "file://%s", file), .timeout_ms = 20000);
    if (rank == 0 && gw_ok(root)) examine(root);
    gw_rpc_shutdown(root);
    int code = gw_exit_code(gw_scope_close(root));
    fflush(NULL);
    return code;
}

static void print_line(const char *what, const char *path, const char *meaning) {
    char line[256] = "";
    FILE *f = fopen(path, "re");
    bool is_there = f && fgets(line, sizeof line, f);
    if (f) fclose(f);
    line[strcspn(line, "\n")] = '\0';
    if (is_there) printf("%-23s %s  (%s: %s)\n", what, line, path, meaning);
}

// Where workers of this host would be met by those of others, and whether they would be.
static void print_network(void) {
    const char *key = getenv("GW_KEY_FILE"), *insecure = getenv("GW_INSECURE");
    const char *addresses = getenv("GW_ADDRESS"), *interfaces = getenv("GW_INTERFACE");
    char text[ADDRESSES_MAX];
    gw_error error;
    const places p = { .addresses = addresses && *addresses ? addresses : NULL,
                       .interfaces = interfaces && *interfaces ? interfaces : NULL,
                       .toward = "" };
    bool has_none = places_choose(&p, text, &error) != GW_OK;
    printf("address for other hosts %s\n", has_none ? error.text : text);
    if (key && *key)
        printf("connections to them     encrypted  (GW_KEY_FILE is %s)\n", key);
    else if (insecure && strcmp(insecure, "1") == 0)
        printf("connections to them     not encrypted  (GW_INSECURE is set: every host of the "
               "network can read and change the data)\n");
    else
        printf("connections to them     none, because no key is given  (make one with gradwire "
               "key)\n");
}

static void print_system(void) {
    struct utsname u;
    struct rlimit files, memory;
    if (uname(&u) == 0)
        printf("this host               %s %s, %ld processors\n", u.sysname, u.release,
               sysconf(_SC_NPROCESSORS_ONLN));
    const char *transport = getenv("GW_TRANSPORT"), *lend = getenv("GW_LEND");
    if (transport)
        printf("GW_TRANSPORT            %s%s\n", transport,
               strcmp(transport, "tcp") == 0 ? "  (workers share no memory: all tensors are sent)"
                                             : "");
    if (lend)
        printf("GW_LEND                 %s%s\n", lend,
               strcmp(lend, "0") == 0      ? "  (large tensors are sent)"
               : strcmp(lend, "pull") == 0 ? "  (large tensors are pulled, not lent)"
                                           : "");
    if (getrlimit(RLIMIT_NOFILE, &files) == 0)
        printf("descriptors             %llu  (a connection to a worker needs 2)\n",
               (unsigned long long)files.rlim_cur);
    if (getrlimit(RLIMIT_AS, &memory) == 0 && memory.rlim_cur != RLIM_INFINITY)
        printf(
            "address space           %llu bytes  (workers on this host map each other's memory)\n",
            (unsigned long long)memory.rlim_cur);
    print_line("huge pages to be lent", "/sys/kernel/mm/transparent_hugepage/shmem_enabled",
               "\"advise\" makes lent memory faster");
    print_line("who may read memory", "/proc/sys/kernel/yama/ptrace_scope",
               "from 2 on no process may read the memory of another");
}

// Both in one go, so that each is there for the other.
static int run_workers(const char *file) {
    int failed = 0;
    fflush(NULL);
    for (int rank = 0; rank < 2; rank++) {
        pid_t pid = fork();
        if (pid == 0) _exit(work(rank, file));
        if (pid < 0) failed = 1;
    }
    for (int status; wait(&status) > 0;) failed |= status != 0;
    return failed;
}

int doctor_command(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "--help") == 0) {
        printf("usage: gradwire doctor\n\n"
               "Starts two workers on this host. Prints how they send messages to each other, how "
               "fast they send,\n"
               "and which settings of the system affect the speed.\n\n"
               "Exit code: 0; 1 if the workers could not work together.\n");
        return 0;
    }
    if (argc > 1) return usage_refuse("doctor", argv[1], (const char *const[]){ "--help", NULL });
    char file[] = "/tmp/gradwire-doctor-XXXXXX";
    int fd = mkstemp(file);
    if (fd < 0) {
        fprintf(stderr, "gradwire doctor: %s: %s\n", file, strerror(errno));
        return EXIT_OWN_FAILURE;
    }
    close(fd);
    print_system();
    print_network();
    int failed = run_workers(file);
    unlink(file);
    return failed;
}
