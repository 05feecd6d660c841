#include "elastic/elastic.h"
#include "testing/testing.h"

#include <semaphore.h>
#include <signal.h>

static bool is_default(void) {
    struct sigaction now;
    assert_int_equal(sigaction(SIGTERM, NULL, &now), 0);
    return !(now.sa_flags & SA_SIGINFO) && now.sa_handler == SIG_DFL;
}

static sem_t reports;

static void note_arrival(void) {
    sem_post(&reports);
}

static void own_handler(int number) {
    (void)number;
}

static void sigterm_is_noted_and_a_second_one_is_not_caught(void **state) {
    (void)state;
    assert_int_equal(sem_init(&reports, 0, 0), 0);
    assert_true(is_default());
    assert_true(term_take(note_arrival));
    assert_true(term_take(note_arrival));  // of another job
    assert_false(is_default());
    assert_false(term_has_arrived());
    raise(SIGTERM);
    while (sem_wait(&reports)) {
    }
    assert_true(term_has_arrived());
    assert_true(is_default());
    term_give_back();
    assert_true(term_has_arrived());
    term_give_back();
    assert_false(term_has_arrived());
    assert_true(is_default());
}

static void what_the_program_has_set_stays(void **state) {
    (void)state;
    signal(SIGTERM, own_handler);
    assert_false(term_take(note_arrival));
    signal(SIGTERM, SIG_IGN);
    assert_false(term_take(note_arrival));
    signal(SIGTERM, SIG_DFL);
    assert_true(term_take(note_arrival));
    signal(SIGTERM, own_handler);
    term_give_back();
    assert_true(signal(SIGTERM, SIG_DFL) == own_handler);
}

GW_TESTS(elastic_term, sigterm_is_noted_and_a_second_one_is_not_caught,
         what_the_program_has_set_stays);
