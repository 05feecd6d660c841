// What a member does in a collective, as all members have to say it alike: GRP-2.
//
// Ownership: a plain value. Threads: any.
#ifndef COLLECTIVE_SIGNATURE_H
#define COLLECTIVE_SIGNATURE_H

#include "base/bytes.h"
#include "base/limits.h"
#include "collective/plan.h"
#include <gradwire/collective.h>

typedef enum content {
    CONTENT_TENSOR,   // one of all: rows or sums
    CONTENT_TENSORS,  // any, one of each member or for each
    CONTENT_VALUES,
    CONTENT_ROWS,         // one of all, sparse by rows
    CONTENT_ROWS_SUMMED,  // the same, of which each member makes the sum
    CONTENT_COUNT
} content;

// Of what this member brings, where the operation has a derivative: whether it will enter its backward.
typedef enum gradient_need {
    GRADIENT_UNSAID,
    GRADIENT_NONE,
    GRADIENT_NEEDED,
    GRADIENT_NEED_COUNT
} gradient_need;

enum { SIGNATURE_OPEN = 255 };  // dims, where the member does not say shape and dtype

typedef struct collective_signature {
    uint8_t operation, op, dtype, plan, content, dims, gradient;
    int32_t root;  // -1: without one
    double factor;
    // An odd hash of |sizes| of reduce_scatter, or one of the shapes of tensors that are sent together,
    // with 2 for its last two bits; 0: neither. In a series, by XOR, what its room wants to be alike, a
    // multiple of 4.
    uint64_t shares;
    int64_t sizes[LIMIT_DIMS];
} collective_signature;

enum { SIGNATURE_TEXT_MAX = 512, SIGNATURE_DETAIL_MAX = 192 };

// Whether numbers of all are combined: all_reduce, reduce, reduce_scatter.
bool signature_is_reduction(const collective_signature *x);

// Whether what members bring is sparse by rows.
bool signature_is_rows(const collective_signature *x);

// What two members say of one collective fits together.
bool signature_matches(const collective_signature *a, const collective_signature *b);

// |past|, a hash of what a member has called before, with |x| behind it: equal for signatures that match.
uint64_t signature_add(uint64_t past, const collective_signature *x);

// "all_reduce sum f32 10x20 (train.c:40)", into SIGNATURE_TEXT_MAX bytes. |origin| may be "". |detail|: what
// |shares| is a hash of, "sizes 1+2+1", SIGNATURE_DETAIL_MAX bytes at most; NULL: it is not known.
void signature_text(const collective_signature *x, const char *detail, const char *origin,
                    char *out);

// As in docs/protocol/groups.md, without what is in front of it and behind it. |holds| goes with it.
void signature_write(bytes *head, const collective_signature *x, bool holds);
// Fails |in|, or gives false, if it means nothing to a group of |member_count|.
bool signature_read(reader *in, int member_count, collective_signature *out, bool *out_holds);

const char *reduce_op_name(int op);  // "sum"

#endif
