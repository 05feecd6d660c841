// A peer writes anything anywhere into the memory it shares with a worker, and anything into the socket, while the
// worker runs: the worker reads bytes, and at worst this one stream ends.
#include "net/env_os.h"
#include "net/shm/shm.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// ---- The worker ---------------------------------------------------------------------------------

typedef struct victim {
    env *env;
    listener *listener;
    char address[ADDRESS_MAX];
    stream *stream;
    bool is_closed;
    uint8_t bytes[4096];
} victim;

static victim v;

static void on_buffer(void *user, void **into, size_t *size) {
    (void)user;
    *into = v.bytes;
    *size = sizeof v.bytes;
}

// It echoes what it receives.
static void on_received(void *user, size_t count) {
    (void)user;
    if (count > sizeof v.bytes) abort();
    stream_send(v.stream, &(struct iovec){ v.bytes, count }, 1);
}

static void on_writable(void *user) {
    (void)user;
    stream_send(v.stream, &(struct iovec){ v.bytes, sizeof v.bytes }, 1);
}

static void on_closed(void *user, const gw_error *why) {
    (void)user;
    if (v.is_closed || !why->text[0]) abort();
    v.is_closed = true;
}

static const stream_events events = {
    .buffer = on_buffer, .received = on_received, .writable = on_writable, .closed = on_closed
};

static void on_accepted(void *user, stream *s) {
    (void)user;
    v.stream = s;
    stream_adopt(s, &events, NULL);
}

static void open_victim(void) {
    if (env_os_open(&v.env, NULL)) abort();
    env_enter(v.env);
    if (shm_transport.listen(v.env, shm_transport.anywhere, on_accepted, NULL, &v.listener,
                             v.address, NULL))
        abort();
}

static void look(void) {
    waiter w = { .what = "what the peer does" };
    env_wait(v.env, &w, 0);
}

// ---- The peer -----------------------------------------------------------------------------------

typedef struct liar {
    int socket, memory;
    uint8_t *base;
} liar;

static int connect_to_worker(void) {
    struct sockaddr_un name = { .sun_family = AF_UNIX };
    int length = snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "gradwire/%s",
                          strchr(v.address, ':') + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
    if (fd < 0 || connect(fd, (struct sockaddr *)&name, size)) abort();
    return fd;
}

static void open_liar(liar *x) {
    struct {
        char magic[8];
        uint64_t size;
    } sent_offer = { "GWRING01", SEGMENT_BYTES };
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = { 0 };
    x->socket = connect_to_worker();
    x->memory = memfd_create("liar", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (x->memory < 0 || ftruncate(x->memory, SEGMENT_BYTES) ||
        fcntl(x->memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
        abort();
    x->base = mmap(NULL, SEGMENT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, x->memory, 0);
    if (x->base == MAP_FAILED) abort();
    struct iovec part = { &sent_offer, sizeof sent_offer };
    struct msghdr m = { .msg_iov = &part,
                        .msg_iovlen = 1,
                        .msg_control = &control,
                        .msg_controllen = sizeof control.bytes };
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &x->memory, sizeof(int));
    if (sendmsg(x->socket, &m, MSG_NOSIGNAL) != (ssize_t)sizeof sent_offer) abort();
}

static void close_liar(liar *x) {
    munmap(x->base, SEGMENT_BYTES);
    close(x->memory);
    close(x->socket);
}

// The offset: mostly among the words, else anywhere.
static size_t offset_of(const uint8_t *in) {
    size_t at = in[0] < 200 ? in[0] * 2u : (size_t)(in[0] << 16 | in[1] << 8 | in[2]);
    return at % (SEGMENT_BYTES - 8);
}

// The value: mostly near valid ones.
static uint64_t value_of(const uint8_t *in) {
    uint64_t near = (uint64_t)in[1] << 8 | in[2];
    switch (in[0] % 5) {
    case 0: return near;
    case 1: return near * 64;
    case 2: return RING_BYTES + near - 256;
    case 3: return UINT64_MAX - near;
    default: return near << 40;
    }
}

enum { ACT_BYTES = 7 };

static void act(liar *x, const uint8_t *in) {
    uint64_t value = value_of(in + 4);
    switch (in[0] % 4) {
    case 0: look(); break;
    case 1: (void)!send(x->socket, in, in[1] % 6 + 1u, MSG_NOSIGNAL | MSG_DONTWAIT); break;
    default: memcpy(x->base + offset_of(in + 1), &value, sizeof value);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    liar x;
    open_victim();
    open_liar(&x);
    while (!v.stream) look();
    look();
    for (size_t at = 0; at + ACT_BYTES <= size; at += ACT_BYTES) act(&x, data + at);
    close_liar(&x);
    while (!v.is_closed) look();
    env_leave(v.env);
    env_close(v.env);
    v = (victim){ 0 };
    return 0;
}
