// A parent that starts workers, gives them tasks, kills one on purpose, detects the loss, starts a replacement, and
// continues.
// The parent founds a group; the workers are this same program, started again, and join it. The task of a lost worker
// is given to another worker.
#include <gradwire.h>

#include <stdio.h>
#include <unistd.h>

enum { WORKERS = 3, TASKS = 40 };

GW_FUNCTION(square, GW_POOL, "int") {
    int64_t x = gw_arg_int(s, a, 0);
    usleep(5000);  // hard work
    return gw_value_of(x * x);
}

static int be_worker(const char *url, const char *name) {
    gw_scope *root = gw_scope_open(NULL);
    gw_rpc_init(root, .name = name, .job = GW_JOB_JOIN, .init_method = url);
    gw_rpc_shutdown(root);  // serves until the parent is done
    return gw_exit_code(gw_scope_close(root));
}

// A named worker, whose process may be replaced.
typedef struct slot {
    const char *name;
    gw_process *process;
    bool has_joined;
} slot;

static void start_worker(gw_scope *root, slot *p, const char *url) {
    const char *const arguments[] = { url, p->name, NULL };
    p->process = gw_process_start(root, p->name, arguments);
    p->has_joined = false;
}

// Prints the events of a slot. A dead worker is replaced by one of the same name.
static void update(gw_scope *root, slot *p, const char *url) {
    if (!p->has_joined && gw_future_done(gw_process_joined(p->process)) &&
        !gw_future_error(gw_process_joined(p->process))) {
        printf("%s joined\n", p->name);
        p->has_joined = true;
    }
    if (!gw_future_done(gw_process_ended(p->process))) return;
    printf("%s died\n", p->name);
    // A killed worker is replaced; a worker that failed by itself would fail again.
    int64_t code = gw_int_of(root, gw_wait(root, gw_process_ended(p->process)));
    if (code < 128) gw_fail(root, GW_REMOTE, "%s exited with code %d", p->name, (int)code);
    gw_drop(root, p->process);
    start_worker(root, p, url);
}

// Waits until all workers have joined, for 30 s.
static void gather(gw_scope *root, slot slots[WORKERS], const char *url) {
    gw_scope *s = gw_scope_open(root);
    gw_scope_set_timeout(s, 30000);
    while (gw_ok(s) && gw_ok(root)) {
        gw_future *events[2 * WORKERS];
        int count = 0;
        for (int i = 0; i < WORKERS; i++) {
            update(root, &slots[i], url);
            events[count++] = gw_process_ended(slots[i].process);
            if (!slots[i].has_joined) events[count++] = gw_process_joined(slots[i].process);
        }
        if (gw_rpc_world_size(s) > WORKERS) break;
        gw_wait_any(s, events, count);
    }
    gw_scope_close_up(s);
}

typedef struct task {
    int64_t result;       // 0: not done
    gw_future *underway;  // in this round
} task;

// Gives each worker a pending task.
static void give(gw_scope *s, task tasks[TASKS]) {
    int count;
    const gw_worker *workers = gw_rpc_workers(s, &count);  // the first is this one
    for (int i = 0, next = 1; i < TASKS && next < count; i++)
        if (!tasks[i].result) tasks[i].underway = gw_rpc_async(s, workers[next++], "square", i + 1);
}

// A failed task stays pending and is repeated.
static int take(gw_scope *s, task tasks[TASKS]) {
    int left = 0;
    for (int i = 0; i < TASKS; i++) {
        if (tasks[i].underway) {
            gw_scope *one = gw_scope_open(s);
            tasks[i].result = gw_int_of(one, gw_wait(one, tasks[i].underway));
            gw_error e = gw_scope_close(one);
            if (e.status) printf("task %d is repeated: %s\n", i, gw_status_name(e.status));
            tasks[i].underway = NULL;
        }
        left += !tasks[i].result;
    }
    return left;
}

int main(int argc, char **argv) {
    if (argc == 3) return be_worker(argv[1], argv[2]);
    char path[64], url[80];
    snprintf(path, sizeof path, "/tmp/gradwire-supervisor-%d", (int)getpid());
    snprintf(url, sizeof url, "file://%s", path);

    gw_scope *root = gw_scope_open(NULL);
    gw_rpc_init(root, .name = "parent", .job = GW_JOB_CREATE, .init_method = url);
    slot slots[WORKERS] = { { .name = "worker1" }, { .name = "worker2" }, { .name = "worker3" } };
    for (int i = 0; i < WORKERS; i++) start_worker(root, &slots[i], url);

    task tasks[TASKS] = { 0 };
    bool is_killed = false;
    for (int left = TASKS; left > 0 && gw_ok(root);) {
        gather(root, slots, url);
        gw_scope *s = gw_scope_open(root);
        give(s, tasks);
        if (!is_killed && left <= TASKS / 2) {
            gw_process_kill(slots[1].process);
            is_killed = true;
        }
        left = take(s, tasks);
        gw_scope_close_up(s);
    }
    int64_t sum = 0;
    for (int i = 0; i < TASKS; i++) sum += tasks[i].result;
    if (gw_ok(root)) printf("the sum of %d squares is %lld\n", TASKS, (long long)sum);
    gw_rpc_shutdown(root);
    unlink(path);
    for (int i = 0; i < WORKERS; i++) gw_wait(root, gw_process_ended(slots[i].process));
    return gw_exit_code(gw_scope_close(root));
}
