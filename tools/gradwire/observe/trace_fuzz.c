// Files of images from anywhere: decoding any bytes ends in images, or in one reason; and images that were decoded can be
// shown, and are the same after another round.
#include "observe/dump.h"

#include <stdlib.h>
#include <string.h>

#include "observe/hang.h"
#include "observe/text.h"
#include "observe/workers.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok) {
    if (!ok) abort();
}

static void show(const image *images, int count) {
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (!out) return;
    workers_write(images, count, out);
    workers_write_json(images, count, out);
    for (int i = 0; i < count; i++) text_write(&images[i], 50, out);
    for (int json = 0; json < 2; json++)
        check(hang_report(images, count, &(hang_options){ .json = json }, out) >= 0);
    fclose(out);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    image *images, *again;
    int count, again_count;
    char why[IMAGE_WHY_SIZE];
    bytes once = { 0 }, twice = { 0 };
    if (!dump_decode(data, size, &images, &count, why, sizeof why)) {
        check(why[0] != '\0');
        return 0;
    }
    show(images, count);
    dump_encode(images, count, DUMP_BYTES, &once);
    check(dump_decode(once.data, once.size, &again, &again_count, why, sizeof why));
    dump_encode(again, again_count, DUMP_BYTES, &twice);
    check(once.size == twice.size && memcmp(once.data, twice.data, once.size) == 0);
    image_free_all(images, count);
    image_free_all(again, again_count);
    bytes_fini(&once);
    bytes_fini(&twice);
    return 0;
}
