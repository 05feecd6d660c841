// Elastic training under a launcher. Started with `gradwire run -n N --max-restarts M elastic_trains STEPS MIN
// [EVENT...]`: learns for STEPS steps with at least MIN members. An EVENT is RANK:PLACE:STEP: the first attempt of that
// rank kills itself there ("open", "begin", "pass", "step", "end", "close"), raises SIGTERM ("term"), leaves ("leave"),
// asks for a checkpoint ("ask"), waits until one is whole ("whole"), waits for ever ("hang"), "slow:RANK:MS": the first
// attempt of that rank computes MS milliseconds more in each step; makes a second backward pass ("twice"), or fails
// ("fail"). "random:K:SEED": the first K attempts of each rank but the last end by a timer, after some ms of computing
// that follow from SEED. "until:G:N": all leave when the members have been N for some steps, in generation G or later;
// "again:N": when they have been N again after a change; "after:FILE": all leave after the step whose number is in
// FILE, once it exists. All members have the weights of one process that learns alone.
#include <gradwire.h>
#include <math.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

enum { BATCH = 12, IN = 6, OUT = 3 };

static int event_count;
static char **events;

static bool is_now(const char *place, int64_t step) {
    gw_launch here = gw_rpc_launched();
    char text[64];
    snprintf(text, sizeof text, "%d:%s:%lld", here.rank, place, (long long)step);
    for (int i = 0; i < event_count && here.attempt == 0; i++)
        if (!strcmp(events[i], text)) return true;
    return false;
}

// The signal of the timer ends the process.
static void start_timer(void) {
    gw_launch here = gw_rpc_launched();
    unsigned attempts, seed;
    for (int i = 0; i < event_count; i++) {
        if (here.rank == here.world_size - 1 ||
            sscanf(events[i], "random:%u:%u", &attempts, &seed) != 2 ||
            (unsigned)here.attempt >= attempts)
            continue;
        unsigned mixed =
            (seed * 100 + (unsigned)here.rank * 10 + (unsigned)here.attempt) * 2654435761U;
        struct itimerval after = { .it_value.tv_usec = 1000 + (mixed >> 8) % 20000 };
        setitimer(ITIMER_PROF, &after, NULL);
    }
}

static void die_here(const char *place, int64_t step) {
    if (!is_now(place, step)) return;
    fflush(NULL);
    raise(SIGKILL);
}

// Of samples |first| to |first| + |count| of the batch of |step|.
static gw_tensor *loss_of(gw_scope *s, gw_module *model, int64_t step, int64_t first,
                          int64_t count) {
    float x[BATCH * IN];
    for (int64_t i = 0; i < count * IN; i++)
        x[i] = (float)((first * IN + i + step * 7) % 13) / 13 - 0.5F;
    gw_tensor *out = gw_module_call(s, model, gw_reshape(s, gw_from(s, x, count * IN), count, IN));
    return gw_div(s, gw_sum(s, gw_mul(s, out, out)), (double)count);
}

enum { STEPS_TOGETHER = 5 };

static int together;

// Whether there are |size| members in a generation after the first one that had as many. A member that has started again
// has not seen that one.
static bool are_again(int generation, int members, int size) {
    static int first = -1;
    if (members < size) return false;
    if (first < 0) first = gw_rpc_launched().attempt ? generation - 1 : generation;
    return generation > first;
}

static bool are_enough(const gw_elastic *job, const char *event) {
    int generation = (int)gw_elastic_generation(job), members = gw_elastic_size(job), first, size;
    if (sscanf(event, "until:%d:%d", &first, &size) == 2)
        return members >= size && generation >= first;
    return sscanf(event, "again:%d", &size) == 1 && are_again(generation, members, size);
}

// Whether all members leave now: each counts from the step with which the last one has joined.
static bool has_enough(const gw_elastic *job) {
    bool is_so = false;
    for (int i = 0; i < event_count; i++) is_so = is_so || are_enough(job, events[i]);
    together = is_so ? together + 1 : 0;
    return together >= STEPS_TOGETHER;
}

// Whether this step is the last one, or later, by the file of "after".
static bool is_after(int64_t step) {
    long long last;
    for (int i = 0; i < event_count; i++) {
        FILE *f = strncmp(events[i], "after:", 6) ? NULL : fopen(events[i] + 6, "r");
        if (!f) continue;
        bool is_so = fscanf(f, "%lld", &last) == 1 && step >= last;
        fclose(f);
        return is_so;
    }
    return false;
}

static void be_slow(void) {
    gw_launch here = gw_rpc_launched();
    int rank, ms;
    for (int i = 0; i < event_count && here.attempt == 0; i++)
        if (sscanf(events[i], "slow:%d:%d", &rank, &ms) == 2 && rank == here.rank)
            poll(NULL, 0, ms);
}

static bool ends;

static gw_module *make_model(gw_scope *root) {
    gw_seed(root, 1);
    return gw_nn_linear(root, IN, OUT);
}

static gw_optimizer *make_optimizer(gw_scope *root, gw_module *model) {
    return gw_sgd(root, gw_parameters(root, model), .lr = 0.05, .momentum = 0.9);
}

static uint64_t hash_of(gw_scope *s, gw_module *model) {
    uint64_t hash = 14695981039346656037U;
    for (int i = 0; i < gw_module_parameter_count(model); i++) {
        gw_tensor *x = gw_module_parameter_at(s, model, i);
        const unsigned char *bytes = gw_data(x);
        for (size_t k = 0; bytes && k < (size_t)gw_numel(x) * sizeof(float); k++)
            hash = (hash ^ bytes[k]) * 1099511628211U;
    }
    return hash;
}

static void compare_with_one(gw_scope *root, gw_module *model, int64_t steps) {
    gw_scope *s = gw_scope_open(root);
    gw_module *alone = make_model(s);
    gw_optimizer *opt = make_optimizer(s, alone);
    for (int64_t step = 0; step < steps && gw_ok(s); step++) {
        gw_scope *t = gw_scope_open(s);
        gw_backward(t, loss_of(t, alone, step, 0, BATCH));
        gw_optimizer_step(t, opt);
        gw_scope_close_up(t);
    }
    for (int i = 0; i < gw_module_parameter_count(model) && gw_ok(s); i++) {
        gw_tensor *x = gw_module_parameter_at(s, model, i);
        const float *a = gw_data(x), *b = gw_data(gw_module_parameter_at(s, alone, i));
        for (int64_t k = 0; k < gw_numel(x); k++)
            if (fabsf(a[k] - b[k]) > 1e-4F)
                gw_fail(s, GW_INVALID, "parameter %d is %g, not %g", i, a[k], b[k]);
    }
    gw_scope_close_up(s);
}

static void await_checkpoint(gw_scope *root) {
    for (bool is_whole = false; !is_whole && gw_ok(root); sched_yield()) {
        gw_scope *s = gw_scope_open(root);
        is_whole = gw_checkpoint_restore(s, getenv("GW_CHECKPOINT_DIR"), NULL) != NULL;
        gw_scope_close_up(s);
    }
}

static void ask(gw_elastic *job, int64_t step) {
    if (is_now("term", step)) raise(SIGTERM);
    ends = has_enough(job) || is_after(step);
    if (is_now("leave", step) || ends) gw_elastic_leave(job);
    if (is_now("ask", step)) gw_elastic_ask_checkpoint(job);
}

static void take_step(gw_scope *s, gw_elastic *job, gw_module *model, gw_optimizer *opt) {
    int64_t step = gw_elastic_step(job);
    die_here("begin", step);
    ask(job, step);
    while (is_now("hang", step)) pause();
    be_slow();
    if (is_now("whole", step)) await_checkpoint(s);
    if (is_now("fail", step)) gw_fail(s, GW_INVALID, "there is no batch %lld", (long long)step);
    gw_share part = gw_elastic_share(job, BATCH);
    gw_tensor *loss = gw_mul(s, loss_of(s, model, step, part.first, part.count), part.weight);
    die_here("pass", step);
    gw_backward(s, loss);
    if (is_now("twice", step)) gw_backward(s, loss_of(s, model, step, part.first, part.count));
    die_here("step", step);
    gw_optimizer_step(s, opt);
    die_here("end", step);
}

// "steps without gap": a step is begun again or is the next one.
static void follow(gw_scope *root, const gw_elastic *job, int64_t *last) {
    int64_t step = gw_elastic_step(job);
    if (*last >= 0 && step != *last && step != *last + 1)
        gw_fail(root, GW_INVALID, "step %lld follows step %lld", (long long)step, (long long)*last);
    *last = step;
}

static void learn(gw_scope *root, int64_t steps, int min) {
    gw_module *model = make_model(root);
    gw_optimizer *opt = make_optimizer(root, model);
    die_here("open", 0);
    gw_elastic *job = gw_elastic_open(root, model, opt, .steps = steps, .min = min, .every_ms = 0);
    int64_t last = -1;
    start_timer();
    if (gw_ok(root))
        printf("opened at step %lld pid %d\n", (long long)gw_elastic_step(job), (int)getpid());
    for (gw_scope *s; (s = gw_elastic_begin(root, job));) {
        follow(root, job, &last);
        int size = gw_elastic_size(job);
        take_step(s, job, model, opt);
        if (gw_elastic_end(job, s)) printf("made step %lld of %d\n", (long long)last, size);
    }
    die_here("close", 0);
    gw_elastic_reason reason = gw_elastic_get_reason(job);
    if (gw_ok(root))
        printf("%s at step %lld\n", gw_elastic_reason_name(reason),
               (long long)gw_elastic_step(job));
    if (gw_ok(root) && (gw_elastic_step(job) == steps || ends)) {
        compare_with_one(root, model, gw_elastic_step(job));
        printf("weights %016llx\n", (unsigned long long)hash_of(root, model));
    }
    gw_elastic_close(root, job);
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    setvbuf(stdout, NULL, _IOLBF, 0);
    events = argv + 3;
    event_count = argc - 3;
    gw_launch place = gw_rpc_launched();
    printf("rank %d attempt %d pid %d\n", place.rank, place.attempt, (int)getpid());
    gw_scope *root = gw_scope_open(NULL);
    learn(root, strtoll(argv[1], NULL, 10), (int)strtol(argv[2], NULL, 10));
    return gw_exit_code(gw_scope_close(root));
}
