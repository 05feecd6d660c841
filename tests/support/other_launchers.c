#include "other_launchers.h"

#include "launched.h"
#include "testing/testing.h"

#include <string.h>

// Open MPI gives its ranks a terminal, where examples draw their progress: keeps the final text of each line.
static void keep_final_text(char *text) {
    static const char erase[] = "\033[K";
    char *to = text;
    for (char *line = text, *end; *line; line = end) {
        end = line + strcspn(line, "\n") + (strchr(line, '\n') != NULL);
        for (char *at; (at = strstr(line, erase)) && at < end;) line = at + strlen(erase);
        memmove(to, line, (size_t)(end - line));
        to += end - line;
    }
    *to = '\0';
}

void other_launcher_computes_the_same(const char *start) {
    static const char example[] = "./rl_cartpole --max-episodes 6 --log-interval 1 --seed 7";
    result theirs = finish(launch_command("%s -n 3 %s", start, example));
    result ours = finish(launch_command("./gradwire run --no-prefix -n 3 -- %s", example));
    testing_note("%s%s", theirs.out, theirs.err);
    keep_final_text(theirs.out);
    assert_string_equal(theirs.out, ours.out);
    assert_non_null(strstr(theirs.out, "Episode 6"));
    assert_int_equal(theirs.code, 3);
    assert_int_equal(ours.code, 3);
    forget(theirs);
    forget(ours);
}

void other_launcher_keeps_jobs_apart(const char *start) {
    launched a = launch_command("%s -n 3 ./batch_rpc --epochs 3", start);
    launched b = launch_command("%s -n 2 ./hello", start);
    result ra = finish(a), rb = finish(b);
    testing_note("%s%s", ra.err, rb.err);
    assert_int_equal(ra.code, 3);  // three epochs are too few to learn much
    assert_int_equal(rb.code, 0);
    assert_non_null(strstr(ra.out, "2 trainers, answered together"));
    assert_non_null(strstr(rb.out, "6., 12., 18."));
    forget(ra);
    forget(rb);
}

void other_launcher_heals(const char *start) {
    static const char *const events[] = { "1:begin:3", "0:begin:3" };
    for (int i = 0; i < 2; i++) {
        result r = finish(launch_command(
            "export GW_ELASTIC=1:3 MASTER_ADDR=127.0.0.1 MASTER_PORT=%d; %s -n 3 sh -c 'n=0; until "
            "TORCHELASTIC_RESTART_COUNT=$n "
            "./case-elastic_trains 8 3 %s; do n=$((n+1)); [ $n -lt 9 ] || exit 1; done'",
            testing_free_port(), start, events[i]));
        testing_note("code %d\n%s%s", r.code, r.out, r.err);
        assert_int_equal(r.code, 0);
        assert_int_equal(count_in(r.out, "finished at step 8\n"), 3);
        assert_int_equal(count_in(r.out, " attempt 1 pid "), 1);
        forget(r);
    }
}
