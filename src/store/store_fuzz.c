// Records to and from a store.
#include "store/store_internal.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    store_record r;
    size_t taken;
    gw_error error = { 0 };
    while (size > 0) {
        gw_status status = store_record_decode(data, size, &r, &taken, &error);
        if (status && !error.text[0]) abort();
        if (status || taken == 0) return 0;
        if (taken > size || r.size > LIMIT_STORE_VALUE_BYTES) abort();
        bytes again = { 0 };
        store_record_encode(&again, &r);
        if (again.size != taken || memcmp(again.data, data, taken) != 0) abort();
        bytes_fini(&again);
        data += taken;
        size -= taken;
    }
    return 0;
}
