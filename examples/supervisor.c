// A parent that makes workers, gives them work, kills one on purpose, hears of it, makes a new one,
// and carries on.
//
// The parent founds a group; the workers are this same program, started again, and join it. What a
// worker was doing when it died is given to another.
#include <gradwire.h>

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORKERS = 3, TASKS = 40 };

GW_FUNCTION(square, GW_POOL, "int") {
    int64_t x = gw_arg_int(s, a, 0);
    usleep(5000);  // hard work
    return gw_value_of(x * x);
}

static int be_worker(const char *url, const char *name) {
    gw_scope *root = gw_scope_open(NULL);
    gw_rpc_init(root, .name = name, .group = GW_GROUP_JOIN, .init_method = url);
    gw_rpc_shutdown(root);  // serves until the parent is done
    return gw_exit_code(gw_scope_close(root));
}

static pid_t pids[WORKERS];  // of worker1, worker2, ...

static void start_worker(const char *url, int number) {
    char name[16];
    snprintf(name, sizeof name, "worker%d", number);
    pid_t pid = fork();
    if (pid == 0) {
        execl("/proc/self/exe", "supervisor", url, name, (char *)NULL);
        _exit(127);
    }
    pids[number - 1] = pid;
}

// It may be dead to the others and hang.
static void replace_worker(const char *url, const char *name) {
    int number = 0;
    if (sscanf(name, "worker%d", &number) != 1 || number < 1 || number > WORKERS) return;
    kill(pids[number - 1], SIGKILL);
    start_worker(url, number);
}

// Waits until all workers are there. Whoever has died gets a successor of the same name.
static void gather(gw_scope *s, gw_watch *watch, const char *url) {
    while (gw_ok(s) && (gw_watch_ready(watch) || gw_rpc_world_size(s) < 1 + WORKERS)) {
        gw_member_event e = gw_watch_next(s, watch);
        if (gw_ok(s)) printf("%s %s\n", e.worker.name, gw_member_event_name(e.kind));
        if (e.kind == GW_MEMBER_DIED) replace_worker(url, e.worker.name);
    }
}

typedef struct task {
    int64_t result;       // 0: not done
    gw_future *underway;  // in this round
} task;

// Gives each worker a task that is not done.
static void give(gw_scope *s, task tasks[TASKS]) {
    int count;
    const gw_worker *workers = gw_rpc_workers(s, &count);  // the first is this one
    for (int i = 0, next = 1; i < TASKS && next < count; i++)
        if (!tasks[i].result) tasks[i].underway = gw_rpc_async(s, workers[next++], "square", i + 1);
}

// Those that fail are not done, and come again.
static int take(gw_scope *s, task tasks[TASKS]) {
    int left = 0;
    for (int i = 0; i < TASKS; i++) {
        if (tasks[i].underway) {
            gw_scope *one = gw_scope_open(s);
            tasks[i].result = gw_int_of(one, gw_wait(one, tasks[i].underway));
            gw_error e = gw_scope_close(one);
            if (e.status) printf("task %d comes again: %s\n", i, gw_status_name(e.status));
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
    gw_rpc_init(root, .name = "parent", .group = GW_GROUP_CREATE, .init_method = url);
    gw_watch *watch = gw_watch_open(root);
    for (int number = 1; number <= WORKERS; number++) start_worker(url, number);
    pid_t victim = pids[1];

    task tasks[TASKS] = { 0 };
    for (int left = TASKS; left > 0 && gw_ok(root);) {
        gw_scope *s = gw_scope_open(root);
        gw_scope_set_timeout(s, 30000);
        gather(s, watch, url);
        give(s, tasks);
        if (victim > 0 && left <= TASKS / 2) {
            kill(victim, SIGKILL);
            victim = 0;
        }
        left = take(s, tasks);
        gw_scope_close_up(s);
    }
    int64_t sum = 0;
    for (int i = 0; i < TASKS; i++) sum += tasks[i].result;
    if (gw_ok(root)) printf("the sum of %d squares is %lld\n", TASKS, (long long)sum);
    gw_rpc_shutdown(root);
    unlink(path);
    while (wait(NULL) > 0) continue;
    return gw_exit_code(gw_scope_close(root));
}
