#include "hosts.h"

#include "testing/testing.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct hosts {
    hosts_options options;
    int home, bridge;  // namespaces
    int namespaces[HOSTS_MAX];
    char addresses[HOSTS_MAX][32];
};

// ---- Namespaces ---------------------------------------------------------------------------------

static bool write_file(const char *path, const char *text) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return false;
    bool written = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    close(fd);
    return written;
}

// A process that is not root becomes root in a new user namespace.
static bool become_root(void) {
    char users[64], groups[64];
    if (geteuid() == 0) return true;
    snprintf(users, sizeof users, "0 %d 1", (int)geteuid());
    snprintf(groups, sizeof groups, "0 %d 1", (int)getegid());
    return !unshare(CLONE_NEWUSER) && write_file("/proc/self/setgroups", "deny") &&
           write_file("/proc/self/uid_map", users) && write_file("/proc/self/gid_map", groups);
}

static int open_namespace(void) {
    return open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
}

static int make_namespace(void) {
    return unshare(CLONE_NEWNET) ? -1 : open_namespace();
}

static void enter(int namespace) {
    assert_int_equal(setns(namespace, CLONE_NEWNET), 0);
}

// Runs one command in a namespace.
static bool try(const hosts *h, int namespace, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static bool try(const hosts *h, int namespace, const char *format, ...) {
    char command[512];
    va_list args;
    va_start(args, format);
    vsnprintf(command, sizeof command, format, args);
    va_end(args);
    enter(namespace);
    int status = system(command);
    enter(h->home);
    if (status) printf("%s: exit code %d\n", command, WEXITSTATUS(status));
    return status == 0;
}

static bool add_host(hosts *h, int i) {
    int mtu = h->options.mtu ? h->options.mtu : 1500, inside;
    h->namespaces[i] = inside = make_namespace();
    enter(h->home);
    if (inside < 0) return false;
    snprintf(h->addresses[i], sizeof h->addresses[i],
             h->options.ipv6_only ? "fd77::%d" : "10.77.0.%d", i + 1);
    return try(h, h->bridge,
               "ip link add port%d mtu %d type veth peer name eth0 mtu %d netns /proc/%d/fd/%d && "
               "ip link set port%d master bridge0 up",
               i, mtu, mtu, (int)getpid(), inside, i) &&
           (h->options.ipv6_only || try(h, inside, "ip addr add 10.77.0.%d/24 dev eth0", i + 1)) &&
           try(h, inside,
               "ip addr add fd77::%d/64 dev eth0 nodad && ip link set eth0 up && ip link set lo up",
               i + 1) &&
           (!h->options.rate_mbit ||
            (try(h, inside, "tc qdisc add dev eth0 root tbf rate %dmbit burst 256kb latency 20ms",
                 h->options.rate_mbit) &&
             try(h, h->bridge,
                 "tc qdisc add dev port%d root tbf rate %dmbit burst 256kb latency 20ms", i,
                 h->options.rate_mbit)));
}

hosts *hosts_open(hosts_options options) {
    assert_in_range(options.count, 1, HOSTS_MAX);
    hosts *h = test_calloc(1, sizeof *h);
    h->options = options;
    // A namespace of another user's cannot be entered again.
    bool is_root = geteuid() == 0;
    if (!become_root() || (h->home = is_root ? open_namespace() : make_namespace()) < 0 ||
        (h->bridge = make_namespace()) < 0 || !has_program("ip") || !has_program("tc"))
        testing_skip("hosts need root or user namespaces, ip and tc");
    enter(h->home);
    assert_true(try(h, h->bridge, "ip link add bridge0 type bridge && ip link set bridge0 up"));
    for (int i = 0; i < options.count; i++) assert_true(add_host(h, i));
    return h;
}

void hosts_close(hosts *h) {
    for (int i = 0; i < h->options.count; i++) close(h->namespaces[i]);
    close(h->bridge);
    close(h->home);
    test_free(h);
}

const char *hosts_address(const hosts *h, int host) {
    return h->addresses[host];
}

launched hosts_launch(hosts *h, int host, const char *format, ...) {
    char command[2048];
    va_list args;
    va_start(args, format);
    vsnprintf(command, sizeof command, format, args);
    va_end(args);
    enter(h->namespaces[host]);
    launched l = launch_command("%s", command);
    enter(h->home);
    return l;
}

pid_t hosts_fork(hosts *h, int host) {
    fflush(NULL);
    enter(h->namespaces[host]);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid) enter(h->home);
    return pid;
}

launched hosts_launch_run(hosts *h, int host, int count, int ranks, const char *arguments) {
    const char *at = h->addresses[0];
    bool is_v6 = strchr(at, ':');
    return hosts_launch(h, host,
                        "exec ./gradwire run --nnodes=%d --node-rank=%d -n %d --grace=2 "
                        "--rdzv-endpoint=%s%s%s:29500 %s",
                        count, host, ranks, is_v6 ? "[" : "", at, is_v6 ? "]" : "", arguments);
}

// ---- Faults of links ----------------------------------------------------------------------------

void hosts_plug(hosts *h, int host, bool in) {
    assert_true(try(h, h->bridge, "ip link set port%d %s", host, in ? "up" : "down"));
}

#define NO_CARD "lladdr 02:00:00:00:00:99 nud permanent"  // an address that no card has

// Sends frames from |from| to |to| to a wrong address; or restores the right one.
static void mislead(hosts *h, int from, int to, bool wrong) {
    static const char *const nets[] = { "fd77::", "10.77.0." };
    for (int v4 = 0; v4 <= !h->options.ipv6_only; v4++)
        assert_true(try(h, h->namespaces[from], "ip neigh %s %s%d dev eth0 %s",
                        wrong ? "replace" : "del", nets[v4], to + 1, wrong ? NO_CARD : ""));
}

static void mislead_all(hosts *h, int host, hosts_way ways, bool wrong) {
    for (int i = 0; i < h->options.count; i++) {
        if (i == host) continue;
        if (ways & HOSTS_FROM) mislead(h, host, i, wrong);
        if (ways & HOSTS_TO) mislead(h, i, host, wrong);
    }
}

void hosts_cut(hosts *h, int host, hosts_way ways) {
    mislead_all(h, host, ways, true);
}

void hosts_heal(hosts *h, int host, hosts_way ways) {
    mislead_all(h, host, ways, false);
}

const char *hosts_add_one_way(hosts *h, int host) {
    static char address[32];
    snprintf(address, sizeof address, "10.77.0.%d", 101 + host);
    assert_true(try(h, h->namespaces[host], "ip addr add %s/24 dev eth0", address));
    for (int i = 0; i < h->options.count; i++)
        if (i != host)
            assert_true(try(h, h->namespaces[i], "ip neigh replace %s dev eth0 " NO_CARD, address));
    return address;
}
