// Another reader of event files: protoc, with the messages of tests/support/event.proto.
#include "../support/launched.h"
#include "testing/testing.h"
#include "trace/event_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// What protoc reads in the Event of a record.
static void decode(const bytes *record, char *out, size_t size) {
    char command[512], path[] = "/tmp/gradwire-event-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    size_t event = record->size - 12 - 4;
    assert_int_equal(write(fd, record->data + 12, event), event);
    close(fd);
    snprintf(command, sizeof command,
             "exec protoc --decode=tensorflow.Event --proto_path=%s/tests/support event.proto < %s",
             GW_SOURCE_DIR, path);
    FILE *in = popen(command, "r");
    assert_non_null(in);
    size_t got = fread(out, 1, size - 1, in);
    out[got] = '\0';
    assert_int_equal(pclose(in), 0);
    unlink(path);
}

static void expect(const char *text, const char *part) {
    if (!strstr(text, part)) testing_note("no \"%s\" in: %s", part, text);
    assert_non_null(strstr(text, part));
}

static void protoc_reads_what_is_written(void **state) {
    (void)state;
    char text[1024];
    bytes b = { 0 };
    if (!has_program("protoc")) testing_skip("protoc is not installed (scripts/setup test)");
    event_file_put_version(&b, 1700000000.5);
    decode(&b, text, sizeof text);
    expect(text, "wall_time: 1700000000.5\n");
    expect(text, "file_version: \"brain.Event:2\"\n");
    bytes_fini(&b);
    event_file_put_scalar(&b, 1, "loss/train", 0.25f, -3);
    decode(&b, text, sizeof text);
    expect(text, "step: -3\n");
    expect(text, "tag: \"loss/train\"\n");
    expect(text, "simple_value: 0.25\n");
    bytes_fini(&b);
    event_file_put_scalar(&b, 1, "loss", 0.0f / 0.0f, 1);
    decode(&b, text, sizeof text);
    expect(text, "simple_value: nan\n");
    bytes_fini(&b);
}

GW_TESTS(scalars_protoc, protoc_reads_what_is_written);
