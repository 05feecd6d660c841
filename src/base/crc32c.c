#include "base/crc32c.h"

#include <stdbool.h>
#include <string.h>

#ifdef __x86_64__
#include <immintrin.h>
#endif

enum {
    POLYNOMIAL = (int)0x82F63B78,  // with its bits reversed, as all of these are
    STRIP_BYTES = 4096,            // of each of the three strips
    FOLD_BYTES = 256,              // at a time, where polynomials are multiplied
};

// ---- By table -----------------------------------------------------------------------------------

// The effect on the sum of a byte that is shifted out; and of 8, 16 and 24 bits above it.
static uint32_t byte_table[256];
// The sum of some bytes followed by STRIP_BYTES zeros, by each byte of their sum.
static uint32_t strip_table[4][256];
// The factors of the lower and the upper half of 16 bytes that shift them by FOLD_BYTES.
static uint64_t fold_lower, fold_upper;

static uint32_t after_zeros(uint32_t crc, size_t count) {
    while (count-- > 0) crc = byte_table[crc & 255] ^ crc >> 8;
    return crc;
}

// Sums are linear: the sum of any word is the exclusive or of the sums of its bits.
static void fill_strip_table(void) {
    uint32_t bits[32];
    for (int i = 0; i < 32; i++) bits[i] = after_zeros((uint32_t)1 << i, STRIP_BYTES);
    for (int k = 0; k < 4; k++)
        for (int byte = 0; byte < 256; byte++)
            for (int i = 0; i < 8; i++)
                if (byte >> i & 1) strip_table[k][byte] ^= bits[8 * k + i];
}

// x to the power of |n|, with its bits reversed in 33 of them, as products of reversed polynomials
// are one bit short.
static uint64_t reversed_power(int n) {
    uint32_t x = 0x80000000;
    while (n-- > 0) x = x >> 1 ^ (x & 1 ? (uint32_t)POLYNOMIAL : 0);
    return (uint64_t)x << 1;
}

// Runs before main, so no lock is needed.
__attribute__((constructor)) static void fill_tables(void) {
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int i = 0; i < 8; i++) crc = crc >> 1 ^ (crc & 1 ? (uint32_t)POLYNOMIAL : 0);
        byte_table[byte] = crc;
    }
    fill_strip_table();
    fold_lower = reversed_power(8 * FOLD_BYTES + 32);
    fold_upper = reversed_power(8 * FOLD_BYTES - 32);
}

uint32_t crc32c_by_table(uint32_t crc, const void *data, size_t size) {
    const uint8_t *at = data;
    crc = ~crc;
    for (; size > 0; size--) crc = byte_table[(crc ^ *at++) & 255] ^ crc >> 8;
    return ~crc;
}

// ---- By instruction -----------------------------------------------------------------------------

#ifdef __x86_64__
static uint32_t after_strip(uint32_t crc) {
    return strip_table[0][crc & 255] ^ strip_table[1][crc >> 8 & 255] ^
           strip_table[2][crc >> 16 & 255] ^ strip_table[3][crc >> 24];
}

static uint64_t word_at(const uint8_t *at) {
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

// The instruction takes three cycles and one can start in each: three strips of the bytes at a time.
__attribute__((target("sse4.2"))) static uint32_t by_instruction(uint32_t begin, const uint8_t *at,
                                                                 size_t size) {
    uint64_t crc = (uint32_t)~begin;
    for (; size >= 3 * STRIP_BYTES; size -= 3 * STRIP_BYTES, at += 3 * STRIP_BYTES) {
        uint64_t second = 0, third = 0;
        for (size_t i = 0; i < STRIP_BYTES; i += 8) {
            crc = __builtin_ia32_crc32di(crc, word_at(at + i));
            second = __builtin_ia32_crc32di(second, word_at(at + STRIP_BYTES + i));
            third = __builtin_ia32_crc32di(third, word_at(at + 2 * STRIP_BYTES + i));
        }
        crc = after_strip((uint32_t)crc) ^ second;
        crc = after_strip((uint32_t)crc) ^ third;
    }
    for (; size >= 8; size -= 8, at += 8) crc = __builtin_ia32_crc32di(crc, word_at(at));
    for (; size > 0; size--) crc = __builtin_ia32_crc32qi((uint32_t)crc, *at++);
    return ~(uint32_t)crc;
}

// The bytes are a polynomial, and its remainder is unchanged when its front is replaced by an equivalent
// polynomial further back: so FOLD_BYTES are folded into the next ones repeatedly.
// The last of them are summed by the instruction.
__attribute__((target("avx512f,vpclmulqdq,sse4.2"))) static uint32_t
by_folding(uint32_t begin, const uint8_t *at, size_t size) {
    enum { PARTS = FOLD_BYTES / 64 };
    __m512i part[PARTS], by = _mm512_set4_epi64((long long)fold_upper, (long long)fold_lower,
                                                (long long)fold_upper, (long long)fold_lower);
    for (int i = 0; i < PARTS; i++) part[i] = _mm512_loadu_si512(at + 64 * i);
    __m512i sum = _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)~begin));
    part[0] = _mm512_xor_si512(part[0], sum);
    for (size -= FOLD_BYTES, at += FOLD_BYTES; size >= FOLD_BYTES;
         size -= FOLD_BYTES, at += FOLD_BYTES) {
        for (int i = 0; i < PARTS; i++) {
            __m512i lower = _mm512_clmulepi64_epi128(part[i], by, 0x00);
            __m512i upper = _mm512_clmulepi64_epi128(part[i], by, 0x11);
            __m512i next = _mm512_loadu_si512(at + 64 * i);
            part[i] = _mm512_ternarylogic_epi64(lower, upper, next, 0x96);
        }
    }
    uint8_t rest[FOLD_BYTES];
    for (int i = 0; i < PARTS; i++) _mm512_storeu_si512(rest + 64 * i, part[i]);
    return by_instruction(by_instruction(~(uint32_t)0, rest, sizeof rest), at, size);
}

static bool can_fold(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("vpclmulqdq");
}

uint32_t crc32c(uint32_t crc, const void *data, size_t size) {
    if (size >= 4 * FOLD_BYTES && can_fold()) return by_folding(crc, data, size);
    return __builtin_cpu_supports("sse4.2") ? by_instruction(crc, data, size)
                                            : crc32c_by_table(crc, data, size);
}
#else
uint32_t crc32c(uint32_t crc, const void *data, size_t size) {
    return crc32c_by_table(crc, data, size);
}
#endif
