// gradwire monitor and gradwire run --monitor, with jobs that run, over sockets.
#include "testing/testing.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../support/launched.h"

#ifndef GW_MICROHTTPD
enum { HAS_LIBRARY = 0 };
#else
enum { HAS_LIBRARY = 1 };
#endif

static void need_library(void) {
    if (!HAS_LIBRARY) testing_skip("this build has no libmicrohttpd (libmicrohttpd-dev)");
}

// ---- HTTP ---------------------------------------------------------------------------------------

static int connect_to(int port) {
    struct sockaddr_in at = { .sin_family = AF_INET,
                              .sin_port = htons((uint16_t)port),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    return fd;
}

// A server that refuses a request may end the connection before it has read all of it.
static void send_all(int fd, const char *data, size_t size) {
    while (size) {
        ssize_t n = send(fd, data, size, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return;
        data += n;
        size -= (size_t)n;
    }
}

// All until the end of the connection; to be freed.
static char *receive_all(int fd) {
    size_t size = 0, capacity = 1 << 16;
    char *all = malloc(capacity);
    for (;;) {
        assert_non_null(all);
        ssize_t n = recv(fd, all + size, capacity - size - 1, 0);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) break;
        size += (size_t)n;
        if (capacity - size < 1024) all = realloc(all, capacity *= 2);
    }
    all[size] = '\0';
    close(fd);
    return all;
}

typedef struct reply {
    int status;  // 0: the connection ended without one
    char *all;   // with headers
    const char *body;
} reply;

static reply ask(int port, const char *format, ...) __attribute__((format(printf, 2, 3)));
static reply ask(int port, const char *format, ...) {
    char request[2048];
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(request, sizeof request, format, arguments);
    va_end(arguments);
    assert_in_range(size, 1, sizeof request - 1);
    int fd = connect_to(port);
    send_all(fd, request, (size_t)size);
    reply r = { .all = receive_all(fd) };
    sscanf(r.all, "HTTP/1.1 %d", &r.status);
    const char *end = strstr(r.all, "\r\n\r\n");
    r.body = end ? end + 4 : "";
    testing_note("%s\n%.3000s", request, r.all);
    return r;
}

static void expect_status(reply r, int status) {
    assert_int_equal(r.status, status);
    free(r.all);
}

static const char host[] = "Host: 127.0.0.1\r\n";

// ---- Jobs ---------------------------------------------------------------------------------------

typedef struct job {
    launched l;
    int port;
    char key[64];
} job;

static void take_address(const char *rest, job *out) {
    if (sscanf(rest, "%d/?key=%63s", &out->port, out->key) != 2) fail_msg("no address: %s", rest);
    assert_int_equal(strlen(out->key), 32);
}

static const char address[] = "http://127.0.0.1:", message[] = "gradwire: http://127.0.0.1:";

// |arguments| of gradwire run: of its options, and the program.
static job start_job(const char *arguments) {
    job j = { .l = launch_command("exec ./gradwire run --grace=1 %s", arguments) };
    take_address(read_line(j.l.err_fd, message), &j);
    return j;
}

static void end_job(job *j) {
    kill(j->l.pid, SIGTERM);
    result r = finish(j->l);
    assert_int_equal(r.code, 128 + SIGTERM);
    forget(r);
}

static reply get(const job *j, const char *path) {
    return ask(j->port, "GET %s HTTP/1.1\r\n%sCookie: gradwire-%d=%s\r\n\r\n", path, host, j->port,
               j->key);
}

static json_t *parse(const char *text) {
    json_error_t error;
    json_t *all = json_loads(text, 0, &error);
    if (!all) fail_msg("%s: %s", error.text, text);
    return all;
}

static json_t *get_json(const job *j) {
    reply r = get(j, "/api/job.json");
    assert_int_equal(r.status, 200);
    json_t *all = parse(r.body);
    free(r.all);
    return all;
}

static json_t *command_json(const char *format, const job *j) {
    result r = finish(launch_command(format, (int)j->l.pid));
    assert_int_equal(r.code, 0);
    json_t *all = parse(r.out);
    forget(r);
    return all;
}

static json_t *worker(const json_t *all, size_t rank) {
    return json_array_get(json_object_get(all, "workers"), rank);
}

static const char *text_of(const json_t *x, const char *key) {
    const char *text = json_string_value(json_object_get(x, key));
    return text ? text : "";
}

static json_int_t number_of(const json_t *x, const char *key) {
    return json_integer_value(json_object_get(x, key));
}

// Until the page has two workers, of which the first waits in a barrier.
static json_t *await_wait(const job *j) {
    for (;;) {
        json_t *all = get_json(j);
        if (json_array_size(json_object_get(all, "workers")) == 2 &&
            strstr(text_of(worker(all, 0), "waits_for"), "barrier 1"))
            return all;
        json_decref(all);
    }
}

// ---- Tests --------------------------------------------------------------------------------------

static void the_page_is_for_those_with_the_key(void **state) {
    (void)state;
    need_library();
    job j = start_job("-n2 --monitor -- ./case-hangs barrier");
    expect_status(ask(j.port, "GET / HTTP/1.1\r\n%s\r\n", host), 401);
    expect_status(ask(j.port, "GET /?key=%032d HTTP/1.1\r\n%s\r\n", 0, host), 401);
    expect_status(ask(j.port, "GET /metrics HTTP/1.1\r\n%s\r\n", host), 401);
    reply r = ask(j.port, "GET /?key=%s HTTP/1.1\r\n%s\r\n", j.key, host);
    char cookie[128];
    snprintf(cookie, sizeof cookie,
             "Set-Cookie: gradwire-%d=%s; Path=/; HttpOnly; SameSite=Strict\r\n", j.port, j.key);
    assert_non_null(strstr(r.all, cookie));
    assert_non_null(
        strstr(r.all, "Content-Security-Policy: default-src 'none'; style-src 'sha256-"));
    assert_non_null(strstr(r.body, "<!doctype html>"));
    assert_null(strstr(r.body, j.key));  // the page itself does not have it
    expect_status(r, 200);
    r = get(&j, "/");
    assert_null(strstr(r.all, "Set-Cookie"));
    expect_status(r, 200);
    expect_status(get(&j, "/nothing"), 404);
    expect_status(ask(j.port, "GET /?key=%s HTTP/1.1\r\nHost: example.org\r\n\r\n", j.key), 403);
    expect_status(
        ask(j.port, "POST /?key=%s HTTP/1.1\r\n%sContent-Length: 3\r\n\r\nabc", j.key, host), 405);
    expect_status(
        ask(j.port, "GET /metrics HTTP/1.1\r\n%sAuthorization: Bearer %s\r\n\r\n", host, j.key),
        200);
    end_job(&j);
}

static void expect_same(const json_t *a, const json_t *b, const char *key) {
    const json_t *x = json_object_get(a, key), *y = json_object_get(b, key);
    assert_non_null(x);
    if (!json_equal(x, y)) fail_msg("%s differs", key);
}

// A line of the metrics.
static void expect_metric(const char *text, const char *name, int rank, const char *label,
                          json_int_t value) {
    char line[256];
    snprintf(line, sizeof line, "gradwire_%s{worker=\"worker%d\"%s} %lld\n", name, rank, label,
             (long long)value);
    if (!strstr(text, line)) fail_msg("no line %s", line);
}

// The sum of all series of that name and worker which have |label|.
static json_int_t sum_metrics(const char *text, const char *name, int rank, const char *label) {
    char begin[128];
    int size = snprintf(begin, sizeof begin, "gradwire_%s{worker=\"worker%d\",", name, rank);
    json_int_t sum = 0;
    for (const char *at = text; (at = strstr(at, begin)); at += size) {
        const char *end = strstr(at, "} "), *found = strstr(at, label);
        assert_non_null(end);
        if (found && found < end) sum += strtoll(end + 2, NULL, 10);
    }
    return sum;
}

// The job waits, so that its numbers stay the same.
static void numbers_are_those_of_top_and_ps(void **state) {
    (void)state;
    static const char *const keys[] = { "worker", "rank",    "pid",   "program",    "host",
                                        "job",    "attempt", "phase", "waits_kind", "waits_for" };
    need_library();
    job j = start_job("-n2 --monitor -- ./case-hangs barrier");
    json_t *all = await_wait(&j);
    json_t *top = command_json("./gradwire top --once --json --interval=0 %d", &j);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        for (size_t rank = 0; rank < 2; rank++)
            if (json_object_get(worker(top, rank), keys[i]))
                expect_same(worker(top, rank), worker(all, rank), keys[i]);
    assert_string_equal(text_of(worker(all, 1), "state"), "runs");
    // Heartbeats are sent meanwhile, and are not compared.
    json_t *ps = command_json("./gradwire ps --json %d", &j);
    reply metrics = get(&j, "/metrics");
    assert_int_equal(metrics.status, 200);
    assert_non_null(strstr(metrics.all, "Content-Type: text/plain; version=0.0.4"));
    for (int rank = 0; rank < 2; rank++) {
        const json_t *w = worker(ps, (size_t)rank);
        expect_metric(metrics.body, "worker_collectives_total", rank, "",
                      number_of(w, "collectives"));
        expect_metric(metrics.body, "worker_calls_total", rank, ",side=\"made\"",
                      number_of(w, "calls_made"));
        expect_metric(metrics.body, "worker_calls_total", rank, ",side=\"served\"",
                      number_of(w, "calls_served"));
        assert_int_equal(sum_metrics(metrics.body, "collectives_total", rank, "group=\""),
                         number_of(w, "collectives"));
        assert_int_equal(sum_metrics(metrics.body, "calls_total", rank, "side=\"made\""),
                         number_of(w, "calls_made"));
        assert_int_equal(sum_metrics(metrics.body, "calls_total", rank, "side=\"served\""),
                         number_of(w, "calls_served"));
    }
    assert_non_null(strstr(metrics.body, "gradwire_members{state=\"serving\"} 2\n"));
    expect_status(metrics, 200);
    reply health = get(&j, "/healthz");
    assert_true(health.status == 200 || health.status == 503);
    free(health.all);
    json_decref(all);
    json_decref(top);
    json_decref(ps);
    end_job(&j);
}

// After ten seconds without progress the page has the root, and what waits for it.
static void a_job_that_hangs_has_its_root_on_the_page(void **state) {
    (void)state;
    need_library();
    job j = start_job("-n2 --monitor -- ./case-hangs barrier");
    for (bool is_seen = false; !is_seen;) {
        json_t *all = get_json(&j);
        const json_t *hang = json_object_get(all, "hang");
        is_seen = json_array_size(hang) == 2;
        if (is_seen) {
            assert_string_equal(text_of(all, "state"), "stuck");
            assert_non_null(strstr(text_of(json_array_get(hang, 0), "text"), "worker1 (pid "));
            assert_non_null(strstr(text_of(json_array_get(hang, 1), "text"), "worker0 waits in"));
        }
        json_decref(all);
    }
    reply r = get(&j, "/");
    assert_non_null(strstr(r.body, "What the job waits for"));
    assert_non_null(strstr(r.body, "worker0 waits in barrier 1 of group &quot;world&quot;"));
    expect_status(r, 200);
    end_job(&j);
}

// Rank 1 does not notice that rank 0 is lost, as it calls nothing.
static void a_worker_that_has_ended_is_marked(void **state) {
    (void)state;
    need_library();
    job j = start_job("-n2 --on-failure=keep --monitor -- ./case-hangs barrier");
    json_t *all = await_wait(&j);
    kill((pid_t)number_of(worker(all, 0), "pid"), SIGKILL);
    for (bool is_seen = false; !is_seen;) {
        json_decref(all);
        all = get_json(&j);
        is_seen = strcmp(text_of(worker(all, 0), "state"), "ended") == 0;
    }
    const json_t *event = json_array_get(json_object_get(all, "events"), 0);
    assert_non_null(event);
    reply r = get(&j, "/");
    assert_int_equal(count_in(r.body, "<tr class=\"ended\">"), 1);
    assert_int_equal(count_in(r.body, "</span>ended<"), 1);
    assert_non_null(strstr(r.body, "has ended before its worker had left the job"));
    expect_status(r, 200);
    json_decref(all);
    kill(j.l.pid, SIGTERM);
    forget(finish(j.l));
}

static void the_name_of_a_program_stays_text(void **state) {
    (void)state;
    need_library();
    path folder = make_folder(), link = in_folder(folder, "<script>\"x'&amp;");
    char command[512];
    assert_int_equal(symlink(GW_BUILD_DIR "/bin/case-hangs", link.text), 0);
    snprintf(command, sizeof command, "-n2 --monitor -- '%s/'\"<script>\\\"x'&amp;\" barrier",
             folder.text);
    job j = start_job(command);
    json_t *all = await_wait(&j);
    assert_non_null(strstr(text_of(worker(all, 0), "program"), "<script>\"x'&"));
    reply r = get(&j, "/");
    assert_null(strstr(r.body, "<script>\""));
    assert_non_null(strstr(r.body, "&lt;script&gt;&quot;x&#39;&amp;"));
    expect_status(r, 200);
    json_decref(all);
    end_job(&j);
    remove_folder(folder);
}

// ---- The process --------------------------------------------------------------------------------

static int open_page_process(const job *j) {
    char number[16];
    snprintf(number, sizeof number, "%d", (int)find_child(j->l.pid, "gradwire-page"));
    return open_process(number);
}

static void the_job_does_not_depend_on_its_monitor(void **state) {
    (void)state;
    need_library();
    job j = start_job("-n1 --monitor -- sh -c 'read go; exit 3'");
    kill(find_child(j.l.pid, "gradwire-page"), SIGKILL);
    read_line(j.l.err_fd, "gradwire: the process that serves the page of the job has ended; it "
                          "starts again");
    expect_status(get(&j, "/"), 200);  // at the same address, with the same key
    kill(find_child(j.l.pid, "gradwire-page"), SIGKILL);
    assert_string_equal(
        read_line(j.l.err_fd, "gradwire: the process that serves the page of the job has ended"),
        "");
    result r = finish(j.l);
    assert_int_equal(r.code, 3);
    forget(r);
}

static void the_monitor_ends_with_its_launcher(void **state) {
    (void)state;
    need_library();
    job j = start_job("-n1 --monitor -- cat");
    int page = open_page_process(&j);
    close_input(&j.l);
    result r = finish(j.l);
    assert_int_equal(r.code, 0);
    assert_int_equal(count_in(r.err, "gradwire: "), 0);
    wait_for_end(page);
    forget(r);
    j = start_job("-n1 --monitor -- cat");
    page = open_page_process(&j);
    kill(j.l.pid, SIGKILL);
    wait_for_end(page);
    forget(finish(j.l));
}

static void a_monitor_of_a_running_job_serves_until_it_is_ended(void **state) {
    (void)state;
    need_library();
    job j = { .l = launch_command("exec ./gradwire run -n2 --grace=1 -- ./case-hangs barrier") };
    for (int i = 0; i < 2; i++) read_line(j.l.out_fd, "[");
    char pid[16];
    snprintf(pid, sizeof pid, "%d", (int)j.l.pid);
    job m = { .l = LAUNCH("monitor", pid) };
    take_address(read_line(m.l.out_fd, address), &m);
    json_t *all = await_wait(&m);
    json_decref(all);
    end_job(&j);
    for (bool is_seen = false; !is_seen; json_decref(all)) {
        all = get_json(&m);
        is_seen = strcmp(text_of(all, "state"), "ended") == 0;
    }
    expect_status(get(&m, "/healthz"), 503);
    kill(m.l.pid, SIGINT);
    result r = finish(m.l);
    assert_int_equal(r.code, 0);
    assert_string_equal(r.err, "");
    forget(r);
}

// ---- Metrics for other hosts --------------------------------------------------------------------

static path write_token(path folder, const char *text, int mode) {
    path file = in_folder(folder, "token");
    FILE *f = fopen(file.text, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    assert_int_equal(chmod(file.text, (mode_t)mode), 0);
    return file;
}

static void metrics_are_served_with_their_token(void **state) {
    (void)state;
    need_library();
    path folder = make_folder(), token = write_token(folder, "s3cret\n", 0600);
    int port = testing_free_port();
    char arguments[512];
    snprintf(arguments, sizeof arguments,
             "-n1 --metrics-listen=127.0.0.1:%d --metrics-token-file=%s -- cat", port, token.text);
    job j = start_job(arguments);
    expect_status(ask(port, "GET /metrics HTTP/1.1\r\nHost: a.example\r\n\r\n"), 401);
    expect_status(
        ask(port, "GET /metrics HTTP/1.1\r\nHost: a.example\r\nAuthorization: Bearer %s\r\n\r\n",
            j.key),
        401);
    reply r = ask(
        port, "GET /metrics HTTP/1.1\r\nHost: a.example\r\nAuthorization: Bearer s3cret\r\n\r\n");
    assert_non_null(strstr(r.body, "gradwire_up "));
    expect_status(r, 200);
    expect_status(
        ask(port,
            "GET /?key=%s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer s3cret\r\n\r\n",
            j.key),
        404);
    expect_status(get(&j, "/"), 200);
    close_input(&j.l);
    forget(finish(j.l));
    remove_folder(folder);
}

static void expect_refused(result r, int code, const char *text) {
    testing_note("%s", r.err);
    assert_int_equal(r.code, code);
    assert_non_null(strstr(r.err, text));
    assert_int_equal(count_in(r.err, "\n"), 1);
    assert_string_equal(r.out, "");
    forget(r);
}

static void what_is_wrong_is_one_sentence(void **state) {
    (void)state;
    expect_refused(RUN("run", "-n1", "--monitor=70000", "--", "true"), 2, "0 to 65535");
    expect_refused(RUN("run", "-n1", "--metrics-listen=1.2.3.4:9", "--", "true"), 2,
                   "--metrics-token-file");
    expect_refused(RUN("run", "-n1", "--metrics-listen=x", "--insecure", "--", "true"), 2, "\"x\"");
    expect_refused(RUN("run", "-n1", "--metrics-token-file=x", "--", "true"), 2,
                   "for --metrics-listen");
    expect_refused(RUN("monitor", "--prt=3"), 2, "--port");
    expect_refused(RUN("monitor", "a", "b"), 2, "b");
    need_library();
    path folder = make_folder(), token = write_token(folder, "s3cret\n", 0640);
    char option[300];
    expect_refused(RUN("monitor", "no-such-job"), 1, "there is no job no-such-job");
    snprintf(option, sizeof option, "--metrics-token-file=%s", token.text);
    expect_refused(RUN("run", "-n1", "--metrics-listen=127.0.0.1:1", option, "--", "true"), 125,
                   "chmod 600");
    write_token(folder, "two words\n", 0600);
    expect_refused(RUN("run", "-n1", "--metrics-listen=127.0.0.1:1", option, "--", "true"), 125,
                   "no token");
    remove_folder(folder);
    expect_refused(RUN("run", "-n1", "--metrics-listen=127.0.0.1:1", option, "--", "true"), 125,
                   "No such file");
    job j = start_job("-n1 --monitor -- cat");
    char monitor[32];
    snprintf(monitor, sizeof monitor, "--monitor=%d", j.port);
    expect_refused(RUN("run", "-n1", monitor, "--", "true"), 125, "Address already in use");
    close_input(&j.l);
    forget(finish(j.l));
}

static void without_the_library_a_sentence_names_its_package(void **state) {
    (void)state;
    if (HAS_LIBRARY) testing_skip("this build has libmicrohttpd");
    expect_refused(RUN("monitor"), 1, "libmicrohttpd-dev");
    expect_refused(RUN("run", "-n1", "--monitor", "--", "true"), 125, "libmicrohttpd-dev");
}

// ---- Bad requests -------------------------------------------------------------------------------

static int send_only(const job *j, const char *data, size_t size) {
    int fd = connect_to(j->port);
    send_all(fd, data, size);
    shutdown(fd, SHUT_WR);
    return fd;
}

static void expect_nothing(int fd) {
    char *all = receive_all(fd);
    assert_null(strstr(all, "HTTP/1.1 200"));
    free(all);
}

static void noise_does_not_stop_the_server(void **state) {
    (void)state;
    static const char *const requests[] = {
        "",
        "\r\n",
        "GET",
        "GET / HTTP/1.1",
        "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n",
        "GET /../../etc/passwd HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        "GET /%00%2e%2e/ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        "GET / HTTP/9.9\r\nHost: 127.0.0.1\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n",
        "GET /?key=%ff%00&key&=&&key= HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: gradwire-=;;=\r\nCookie: \x80\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
        "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
        "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    };
    need_library();
    job j = start_job("-n1 --monitor -- cat");
    enum { COUNT = sizeof requests / sizeof requests[0], MUCH = 10 * 1000 * 1000 };
    static const char beginning[] = "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ";
    int fds[COUNT];
    for (size_t i = 0; i < COUNT; i++) fds[i] = send_only(&j, requests[i], strlen(requests[i]));
    char *much = malloc(MUCH);
    assert_non_null(much);
    memset(much, 'a', MUCH);
    memcpy(much, beginning, sizeof beginning - 1);
    expect_nothing(send_only(&j, much, MUCH));
    // The server waits for the rest of an incomplete request, up to its limit of ten seconds.
    for (size_t i = 0; i < COUNT; i++) expect_nothing(fds[i]);
    free(much);
    expect_status(get(&j, "/"), 200);
    close_input(&j.l);
    result r = finish(j.l);
    assert_int_equal(r.code, 0);
    forget(r);
}

// Connections that say nothing fill the server; it ends them after ten seconds, and then answers.
static void silent_connections_are_ended(void **state) {
    (void)state;
    enum { SILENT = 40 };
    need_library();
    int fds[SILENT];
    job j = start_job("-n1 --monitor -- cat");
    for (int i = 0; i < SILENT; i++) fds[i] = connect_to(j.port);
    for (int i = 0; i < SILENT; i++) send_all(fds[i], "GET /", 5);
    expect_status(get(&j, "/"), 200);
    for (int i = 0; i < SILENT; i++) close(fds[i]);
    close_input(&j.l);
    forget(finish(j.l));
}

// ---- Several hosts ------------------------------------------------------------------------------

// Until the page has |count| workers that serve.
static json_t *await_workers(const job *j, size_t count) {
    for (;;) {
        json_t *all = get_json(j);
        size_t serving = 0, total = json_array_size(json_object_get(all, "workers"));
        for (size_t i = 0; i < total; i++)
            serving += strcmp(text_of(worker(all, i), "phase"), "serving") == 0;
        if (serving == count) return all;
        json_decref(all);
    }
}

static void a_page_shows_the_workers_of_all_hosts(void **state) {
    (void)state;
    need_library();
    int port = testing_free_port();
    job j = { .l = launch_command("exec ./gradwire run --grace=1 --nnodes=2 --node-rank=0 "
                                  "--rdzv-endpoint=127.0.0.1:%d -n2 --monitor -- ./case-hangs "
                                  "barrier",
                                  port) };
    launched other = launch_command("exec ./gradwire run --grace=1 --nnodes=2 --node-rank=1 "
                                    "--rdzv-endpoint=127.0.0.1:%d -n2 -- ./case-hangs barrier",
                                    port);
    take_address(read_line(j.l.err_fd, message), &j);
    json_t *all = await_workers(&j, 4);
    for (int rank = 0; rank < 4; rank++) {
        assert_int_equal(number_of(worker(all, (size_t)rank), "rank"), rank);
        assert_true(number_of(worker(all, (size_t)rank), "resident_bytes") > 0);
    }
    json_decref(all);
    // The metrics have them, too, and sums of theirs.
    reply metrics = get(&j, "/metrics");
    assert_non_null(strstr(metrics.body, "gradwire_members{state=\"serving\"} 4\n"));
    assert_non_null(
        strstr(metrics.body, "gradwire_memory_bytes{worker=\"worker3\",kind=\"tensors\"}"));
    free(metrics.all);
    kill(j.l.pid, SIGTERM);
    forget(finish(other));
    forget(finish(j.l));
}

GW_TESTS_WITH_LIMIT(monitor, 120, the_page_is_for_those_with_the_key,
                    numbers_are_those_of_top_and_ps, a_job_that_hangs_has_its_root_on_the_page,
                    a_worker_that_has_ended_is_marked, the_name_of_a_program_stays_text,
                    the_job_does_not_depend_on_its_monitor, the_monitor_ends_with_its_launcher,
                    a_monitor_of_a_running_job_serves_until_it_is_ended,
                    metrics_are_served_with_their_token, what_is_wrong_is_one_sentence,
                    without_the_library_a_sentence_names_its_package,
                    noise_does_not_stop_the_server, silent_connections_are_ended,
                    a_page_shows_the_workers_of_all_hosts);
