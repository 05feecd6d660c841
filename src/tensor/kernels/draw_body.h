// Random f32 by the block, several blocks at a time, for the CPU that the including file compiles for.
//
// Everything here is made of additions, multiplications, divisions and square roots, which all
// machines round alike, so that a seed means the same numbers everywhere. The C library's log and
// cos differ from version to version.
#include "tensor/kernels/draw_math.h"

enum { BLOCKS = 16 };  // blocks

static void philox_blocks(uint64_t key, uint64_t first, uint32_t words[4][BLOCKS]) {
    uint32_t *restrict c0 = words[0], *restrict c1 = words[1];
    uint32_t *restrict c2 = words[2], *restrict c3 = words[3];
    for (int i = 0; i < BLOCKS; i++) {
        c0[i] = (uint32_t)(first + (uint64_t)i);
        c1[i] = (uint32_t)((first + (uint64_t)i) >> 32);
        c2[i] = c3[i] = 0;
    }
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < BLOCKS; i++) {
            uint64_t p0 = (uint64_t)0xD2511F53u * c0[i], p1 = (uint64_t)0xCD9E8D57u * c2[i];
            c0[i] = (uint32_t)(p1 >> 32) ^ c1[i] ^ k0;
            c1[i] = (uint32_t)p1;
            c2[i] = (uint32_t)(p0 >> 32) ^ c3[i] ^ k1;
            c3[i] = (uint32_t)p0;
        }
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

static void uniform(uint64_t key, uint64_t first, int64_t count, float *out) {
    for (int64_t done = 0; done < count; done += BLOCKS) {
        uint32_t words[4][BLOCKS];
        philox_blocks(key, first + (uint64_t)done, words);
        int64_t n = count - done < BLOCKS ? count - done : BLOCKS;
        for (int64_t i = 0; i < n; i++)
            for (int k = 0; k < 4; k++)
                out[4 * (done + i) + k] = (float)(int32_t)(words[k][i] >> 8) * 0x1p-24f;
    }
}

// Words |k| and |k| + 1 of each block give numbers |k| and |k| + 1.
static void normal_pairs(uint32_t words[4][BLOCKS], int k, float numbers[4][BLOCKS]) {
    for (int i = 0; i < BLOCKS; i++) {
        double a, b;
        normal_pair(unit_of_word(words[k][i]) + 0x1p-32, unit_of_word(words[k + 1][i]), &a, &b);
        numbers[k][i] = (float)a;
        numbers[k + 1][i] = (float)b;
    }
}

static void normal(uint64_t key, uint64_t first, int64_t count, float *out) {
    for (int64_t done = 0; done < count; done += BLOCKS) {
        uint32_t words[4][BLOCKS];
        float numbers[4][BLOCKS];
        philox_blocks(key, first + (uint64_t)done, words);
        normal_pairs(words, 0, numbers);
        normal_pairs(words, 2, numbers);
        int64_t n = count - done < BLOCKS ? count - done : BLOCKS;
        for (int64_t i = 0; i < n; i++)
            for (int k = 0; k < 4; k++) out[4 * (done + i) + k] = numbers[k][i];
    }
}
