// Shared-memory streams: connecting and listening at abstract Unix sockets.
#include "net/transport/exhausted.h"
#include "net/shm/shm.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/failpoint.h"
#include "base/log.h"
#include "base/map.h"
#include "base/status.h"
#include "base/system_error.h"
#include "net/transport/acceptor.h"

static const char anywhere[] = "here:any";

// ---- Addresses ----------------------------------------------------------------------------------

// Abstract names belong to one network namespace of one running kernel. 0: unknown; then errno is
// the reason, or 0.
static uint64_t this_host(void) {
    char boot_id[64] = "";
    struct stat names;
    errno = 0;
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (!f) return 0;
    bool read = fgets(boot_id, sizeof boot_id, f) != NULL;
    fclose(f);
    if (!read || stat("/proc/self/ns/net", &names)) return 0;
    uint64_t parts[2] = { hash_bytes(boot_id, strlen(boot_id)), (uint64_t)names.st_ino };
    return hash_bytes(parts, sizeof parts);
}

typedef struct shm_address {
    uint64_t host, name;
} shm_address;

static bool take_hex(const char **at, uint64_t *out) {
    *out = 0;
    for (int i = 0; i < 16; i++) {
        char c = *(*at)++;
        if (c >= '0' && c <= '9') {
            *out = *out << 4 | (uint64_t)(c - '0');
        } else if (c >= 'a' && c <= 'f') {
            *out = *out << 4 | (uint64_t)(c - 'a' + 10);
        } else {
            return false;
        }
    }
    return true;
}

static gw_status host_unknown(const char *text, int why, gw_error *error) {
    return error_set(error, exhausted_is(why) ? GW_SYSTEM : GW_UNSUPPORTED,
                     "%s: this host cannot be identified%s%s", text, why ? ": " : "",
                     why ? system_error_text(why).text : "");
}

// "here:" is this host, whose processes may agree on a name in advance.
static bool parse(const char *text, shm_address *out) {
    if (strncmp(text, "here:", 5) == 0) {
        text += 5;
        out->host = this_host();
        return take_hex(&text, &out->name) && !*text;
    }
    return take_hex(&text, &out->host) && *text++ == ':' && take_hex(&text, &out->name) && !*text;
}

static gw_status not_an_address(const char *text, gw_error *error) {
    return error_set(error, GW_INVALID, "%.200s: not an address of the shared-memory transport",
                     text);
}

static gw_status shm_check(const char *text, gw_error *error) {
    shm_address a;
    return strcmp(text, anywhere) == 0 || parse(text, &a) ? GW_OK : not_an_address(text, error);
}

static socklen_t socket_name(const shm_address *a, struct sockaddr_un *out) {
    *out = (struct sockaddr_un){ .sun_family = AF_UNIX };
    int size = snprintf(out->sun_path + 1, sizeof out->sun_path - 1, "gradwire/%016llx",
                        (unsigned long long)a->name);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)size);
}

static gw_status open_socket(const char *text, int *out, gw_error *error) {
    *out = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (*out >= 0) return GW_OK;
    int why = errno;
    exhausted_log("a connection cannot be made", why);
    return error_set(error, GW_SYSTEM, "%s: socket: %s", text, system_error_text(why).text);
}

// RING-2. Returns the process at the other end of |fd|, or 0 if it is another user's.
static pid_t trusted_peer(int fd) {
    struct ucred peer;
    socklen_t size = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size)) return 0;
    return peer.uid == geteuid() ? peer.pid : 0;
}

// ---- Sending and receiving the segment ----------------------------------------------------------

typedef struct offer {
    char magic[8];
    uint64_t size;
} offer;

static const offer our_offer = { "GWRING01", SEGMENT_BYTES };

typedef union passed {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
} passed;

static bool send_segment(int socket, int memory) {
    struct iovec part = { (void *)&our_offer, sizeof our_offer };
    passed control = { 0 };
    struct msghdr m = { .msg_iov = &part,
                        .msg_iovlen = 1,
                        .msg_control = &control,
                        .msg_controllen = sizeof control.bytes };
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof memory);
    memcpy(CMSG_DATA(c), &memory, sizeof memory);
    bool is_sent = sendmsg(socket, &m, MSG_NOSIGNAL) == (ssize_t)sizeof our_offer;
    failpoint("segment_sent");
    return is_sent;
}

// The one received descriptor; -1, and all are closed, if there is none or more than one. There may be room for two.
static int descriptor_in(struct msghdr *m) {
    int fds[2], count = 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
        for (size_t at = 0; at + CMSG_LEN(sizeof(int)) <= c->cmsg_len && count < 2;
             at += sizeof(int))
            memcpy(&fds[count++], CMSG_DATA(c) + at, sizeof(int));
    }
    if (count == 1) return fds[0];
    while (count > 0) close(fds[--count]);
    return -1;
}

// The offer arrives whole, with its descriptor: it is sent in one call, before anything else.
void shm_receive_segment(shm_stream *t) {
    offer received_offer;
    struct iovec part = { &received_offer, sizeof received_offer };
    passed control;
    struct msghdr m = { .msg_iov = &part,
                        .msg_iovlen = 1,
                        .msg_control = &control,
                        .msg_controllen = sizeof control.bytes };
    ssize_t n = recvmsg(t->fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    int fd = n > 0 ? descriptor_in(&m) : -1;
    if (m.msg_flags & MSG_CTRUNC) exhausted_log("shared memory is not received", EMFILE);
    if (n != (ssize_t)sizeof received_offer ||
        memcmp(&received_offer, &our_offer, sizeof received_offer) != 0 || fd < 0) {
        if (fd >= 0) close(fd);
        shm_end(t, n == 0 ? "closed by the peer" : "it has sent no shared memory");
        return;
    }
    gw_error why;
    segment_map map;
    if (segment_map_peers(fd, &map, &why)) {
        shm_end(t, why.text);
        return;
    }
    shm_use(t, map, false);
    failpoint("segment_mapped");
    shm_apply(t, SHM_MAPPED);
    if (t->state == SHM_OPEN) t->source.class->ready(&t->source, 0);
}

// ---- Connecting ---------------------------------------------------------------------------------

// A failure is reported in a turn of its own.
static void reach(shm_stream *t, const shm_address *a) {
    struct sockaddr_un name;
    socklen_t size = socket_name(a, &name);
    segment_map map;
    if (connect(t->fd, (struct sockaddr *)&name, size)) {
        shm_end_soon(t, errno);
    } else if (!trusted_peer(t->fd)) {
        shm_end_soon(t, EPERM);
    } else if (segment_make(&map, NULL)) {
        shm_end_soon(t, errno ? errno : ENOMEM);
    } else {
        shm_use(t, map, true);
        failpoint("segment_made");
        if (!send_segment(t->fd, map.fd)) {
            shm_end_soon(t, errno);
        } else if (loop_add(t->env, t->fd, &t->source, EPOLLOUT, NULL)) {
            shm_end_soon(t, ENOMEM);
        }
    }
}

static gw_status shm_connect(env *e, const char *text, const stream_events *events, void *user,
                             stream **out, gw_error *error) {
    os_env *o = os_env_of(e);
    assert(loop_lock_held(e));
    shm_address a;
    int fd;
    if (!parse(text, &a)) return not_an_address(text, error);
    uint64_t host = this_host();
    int why = errno;
    if (!host && exhausted_is(why)) {
        exhausted_log("a connection cannot be made", why);
        return host_unknown(text, why, error);
    }
    if (a.host != host) return error_set(error, GW_INVALID, "%s: on another host", text);
    gw_status status = open_socket(text, &fd, error);
    if (status) return status;
    shm_stream *t = shm_stream_new(o, fd, SHM_CONNECTING);
    if (!t) {
        close(fd);
        return error_set(error, GW_NO_MEMORY, "%s: out of memory", text);
    }
    t->stream.events = events;
    t->stream.user = user;
    reach(t, &a);
    *out = &t->stream;
    return GW_OK;
}

// ---- Listening ----------------------------------------------------------------------------------

static void take_connection(acceptor *a, int fd, const address *unnamed) {
    (void)unnamed;
    pid_t peer = trusted_peer(fd);
    if (!peer) log_line("refused a connection of a process of another user");
    shm_stream *t = peer ? shm_stream_new(a->env, fd, SHM_ACCEPTED) : NULL;
    if (!t) {
        close(fd);
        return;
    }
    a->listener.accepted(a->listener.user, &t->stream);
}

static gw_status choose(env *e, const char *text, shm_address *out, gw_error *error) {
    uint64_t host = this_host();
    if (!host) return host_unknown(text, errno, error);
    if (strcmp(text, anywhere) == 0) {
        *out = (shm_address){ host, e->class->random_u64(e) };
        return GW_OK;
    }
    if (!parse(text, out)) return not_an_address(text, error);
    return out->host == host ? GW_OK : error_set(error, GW_INVALID, "%s: on another host", text);
}

static gw_status shm_listen(env *e, const char *text, void (*accepted)(void *user, stream *s),
                            void *user, listener **out, char out_bound[ADDRESS_MAX],
                            gw_error *error) {
    assert(loop_lock_held(e));
    shm_address a;
    int fd;
    gw_status status = choose(e, text, &a, error);
    if (!status) status = open_socket(text, &fd, error);
    if (status) return status;
    struct sockaddr_un name;
    socklen_t size = socket_name(&a, &name);
    if (bind(fd, (struct sockaddr *)&name, size)) {
        status = errno == EADDRINUSE ? error_set(error, GW_ADDRESS_IN_USE, "%s is in use", text)
                                     : error_set(error, GW_SYSTEM, "%s: bind: %s", text,
                                                 system_error_text(errno).text);
        close(fd);
        return status;
    }
    snprintf(out_bound, ADDRESS_MAX, "%016llx:%016llx", (unsigned long long)a.host,
             (unsigned long long)a.name);
    return acceptor_open(os_env_of(e), fd, out_bound, take_connection,
                         (listener){ &shm_transport, accepted, user }, out, error);
}

// ---- The transport ------------------------------------------------------------------------------

const transport shm_transport = {
    .name = "shm",
    .scheme = "shm",
    .anywhere = anywhere,
    .protects_bytes = true,
    .is_private = true,
    .check = shm_check,
    .listen = shm_listen,
    .listener_close = acceptor_close,
    .connect = shm_connect,
};
