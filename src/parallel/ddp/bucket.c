// Gradients of several leaves in one tensor, and out of it again.
#include "base/mem.h"
#include "base/mutation.h"
#include "parallel/ddp/ddp.h"
#include "tensor/tensor.h"
#include <gradwire/autograd.h>
#include <gradwire/ops.h>

// ---- Dense ones ---------------------------------------------------------------------------------

// Parts of a bucket that one member keeps, next to each other; or all of them.
typedef struct section {
    int first, count;
    int64_t numel;
} section;

static section section_of(const gw_ddp *d, const layout_bucket *at, int member) {
    section x = { 0 };
    for (int i = 0; i < at->part_count; i++) {
        if (d->sharing && at->parts[i].owner < member) x.first = i + 1;
        if (d->sharing && at->parts[i].owner != member) continue;
        x.count++;
        x.numel += at->parts[i].count;
    }
    return x;
}

static int section_count(const gw_ddp *d) {
    return d->sharing ? d->stats.world_size : 1;
}

// The flags are numbers of the bucket's dtype: their mean is 0 where no member has a gradient.
static gw_tensor *flags_of(gw_scope *s, const ddp_pass *r, const layout_bucket *at, section x) {
    int64_t count = x.count;
    float *flags = gw_alloc(s, (size_t)count * sizeof *flags);
    for (int i = 0; flags && i < x.count; i++)
        flags[i] = r->gradients[at->parts[x.first + i].leaf] != NULL;
    gw_tensor *all = flags ? gw_from_with(s, GW_F32, flags, (gw_shape){ 1, &count }) : NULL;
    return all ? gw_to_dtype(s, all, at->dtype) : tensor_poison_of(s);
}

static gw_tensor *numbers_of(gw_scope *s, const ddp_pass *r, kept_part p, gw_dtype dtype) {
    gw_tensor *x = r->gradients[p.leaf];
    if (!x) return gw_zeros_with(s, dtype, (gw_shape){ 1, &p.count });
    int64_t all = x->numel;
    x = gw_reshape_with(s, x, (gw_shape){ 1, &all });
    int64_t first = has_mutation(MUTATION_RANGE_FROM_ZERO) ? 0 : p.first;
    return p.count == all ? x : gw_slice(s, x, 0, first, first + p.count, 1);
}

static bool rides(const ddp_pass *r, int b) {
    return b == r->layout->rider && buffers_ride(r->ddp);
}

// Else they are means.
static bool gives_sums(const ddp_pass *r, int b) {
    return r->divisor != r->ddp->stats.world_size || rides(r, b);
}

gw_tensor *bucket_pack(gw_scope *s, const ddp_pass *r, int b) {
    const layout_bucket *at = &r->layout->buckets[b];
    int sections = section_count(r->ddp), count = 0;
    gw_tensor **parts = gw_alloc(s, (size_t)(at->part_count + 3 * sections) * sizeof *parts);
    gw_tensor *buffers = rides(r, b) ? buffers_pack(s, r, at->dtype) : NULL;
    gw_tensor *wishes = wishes_count(r, b) ? wishes_pack(s, r, at->dtype) : NULL;
    if (!parts) return tensor_poison_of(s);
    for (int m = 0; m < sections; m++) {
        section x = section_of(r->ddp, at, m);
        for (int i = x.first; i < x.first + x.count; i++)
            parts[count++] = numbers_of(s, r, at->parts[i], at->dtype);
        if (x.count && r->has_flags && !r->ddp->hook) parts[count++] = flags_of(s, r, at, x);
        if (buffers) parts[count++] = buffers;
        if (wishes) parts[count++] = wishes;
    }
    return gw_cat(s, parts, count, 0);
}

// Of |x|, which has of each section its numbers, one for each of its parts if it |has_flags|, and |more|.
static gw_future *exchange(gw_scope *s, const gw_ddp *d, const layout_bucket *at, gw_tensor *x,
                           gw_reduce_op op, bool has_flags, int64_t more, const char *origin) {
    gw_collective_options options = GW_OPTIONS(gw_collective_options, .origin = origin);
    if (!d->sharing) return gw_all_reduce_async_with(s, d->group, x, op, options);
    int64_t *sizes = gw_alloc(s, (size_t)d->stats.world_size * sizeof *sizes);
    for (int m = 0; sizes && m < d->stats.world_size; m++) {
        section own = section_of(d, at, m);
        sizes[m] = own.numel + (has_flags ? own.count : 0) + more;
    }
    options.sizes = sizes;
    return gw_reduce_scatter_async_with(s, d->group, x, op, options);
}

// Numbers that are no gradients, behind those of each section.
static int64_t count_riders(const ddp_pass *r, int b) {
    return (rides(r, b) ? buffers_count(r->ddp) : 0) + wishes_count(r, b);
}

const char *bucket_origin(gw_scope *s, const ddp_pass *r) {
    const char *step = steps_text(s, r);
    return gw_format(s, "%s, buckets: %d, %s flags, mean of %d", step ? step : r->ddp->origin,
                     r->layout->bucket_count, r->has_flags ? "with" : "no", r->divisor);
}

gw_future *bucket_start_mean(gw_scope *s, const ddp_pass *r, int b, gw_tensor *packed) {
    return exchange(s, r->ddp, &r->layout->buckets[b], packed, gives_sums(r, b) ? GW_SUM : GW_AVG,
                    r->has_flags, count_riders(r, b), bucket_origin(s, r));
}

gw_future *bucket_start_part(gw_scope *s, const gw_bucket *b, gw_tensor *x) {
    return exchange(s, b->ddp, &b->layout->buckets[b->index], x, GW_AVG, false, 0, b->origin);
}

void bucket_forget(ddp_pass *r, int b) {
    const layout_bucket *at = &r->layout->buckets[b];
    for (int i = 0; i < at->count && !has_mutation(MUTATION_FLAGS_NOT_COMBINED); i++) {
        handle_release(r->gradients[at->leaves[i]]);
        r->gradients[at->leaves[i]] = NULL;
    }
}

// By shards, the mean over the members is that of the sums over the shards of each.
static gw_tensor *mean_of_shards(gw_scope *s, const ddp_pass *r, gw_tensor *x) {
    int count = shards_per_member(r->ddp);
    return count == 1 ? x : gw_mul(s, x, 1.0 / count);
}

// A hook has divided by the number of all.
static gw_tensor *mean_of(gw_scope *s, const ddp_pass *r, int b, gw_tensor *x) {
    double all = r->ddp->stats.world_size;
    if (gives_sums(r, b))
        x = r->ddp->hook ? gw_mul(s, x, all / r->divisor) : gw_div(s, x, r->divisor);
    return mean_of_shards(s, r, x);
}

// A whole bucket, of which only a part is kept, goes away with the rest.
static gw_tensor *part_of(gw_scope *s, const gw_ddp *d, gw_tensor *flat, kept_part p, int64_t at,
                          bool copies) {
    const gw_tensor *x = d->gate.leaves[p.leaf];
    gw_tensor *part = gw_slice(s, flat, 0, at, at + p.count, 1);
    if (p.count == x->numel) part = gw_reshape_with(s, part, (gw_shape){ x->dims, x->sizes });
    return d->options.copy_gradients || copies ? gw_clone(s, part) : part;
}

// |wanted| numbers of the mean, or of a bucket with a hook all of it.
static bool fits(gw_scope *s, const gw_tensor *mean, gw_dtype dtype, int64_t wanted, int64_t all) {
    if (!gw_ok(s)) return false;
    int64_t count = gw_numel(mean);
    if (gw_dtype_of(mean) == dtype && (count == wanted || count == all)) return true;
    return scope_fail(
        s, GW_INVALID,
        "the hook of a DistributedDataParallel returned %lld numbers of %s for a bucket of "
        "%lld numbers of %s",
        (long long)gw_numel(mean), gw_dtype_name(gw_dtype_of(mean)), (long long)wanted,
        gw_dtype_name(dtype));
}

static bool is_used(const ddp_pass *r, int leaf, const float *flag) {
    if (has_mutation(MUTATION_FLAGS_NOT_COMBINED)) return r->gradients[leaf] != NULL;
    return flag ? *flag != 0 : r->ddp->first.used[leaf];
}

// The result of a hook is of the whole bucket, or of the part that is kept here, and its flags are of all leaves;
// else the flags are behind |mean|, and behind these buffers.
void bucket_unpack(gw_scope *s, ddp_pass *r, int b, gw_tensor *mean, gw_tensor *flags) {
    const gw_ddp *d = r->ddp;
    const layout_bucket *at = &r->layout->buckets[b];
    section own = section_of(d, at, d->stats.rank);
    int64_t offset = 0, first_flag = d->hook ? own.first : own.numel;
    int64_t flag_count = r->has_flags && !d->hook ? own.count : 0, end = own.numel + flag_count;
    int64_t riders = rides(r, b) ? buffers_count(d) : 0, all = end + count_riders(r, b);
    if (!fits(s, mean, at->dtype, all, d->hook ? at->numel : all)) return;
    bool is_whole = d->hook && gw_numel(mean) != own.numel;
    gw_no_grad(s);
    if (riders) r->buffers = handle_retain(gw_clone(s, gw_slice(s, mean, 0, end, end + riders, 1)));
    if (wishes_count(r, b)) wishes_unpack(s, r, gw_slice(s, mean, 0, end + riders, all, 1));
    flags = gw_slice(s, flags ? flags : mean, 0, first_flag,
                     first_flag + (r->has_flags ? own.count : 0), 1);
    for (int i = 0; is_whole && i < own.first; i++) offset += at->parts[i].count;
    mean = mean_of(s, r, b, mean);
    const float *used = gw_data(gw_contiguous(s, gw_to_dtype(s, flags, GW_F32)));
    for (int i = 0; gw_ok(s) && i < own.count; i++) {
        kept_part p = at->parts[own.first + i];
        if (is_used(r, p.leaf, r->has_flags ? used + i : NULL))
            r->results[p.leaf] = handle_retain(part_of(s, d, mean, p, offset, is_whole));
        offset += p.count;
    }
}

void bucket_keep(gw_scope *s, ddp_pass *r, int b) {
    const layout_bucket *at = &r->layout->buckets[b];
    for (int i = 0; i < at->count; i++) {
        gw_tensor *x = r->gradients[at->leaves[i]];
        if (!x) continue;
        x = mean_of_shards(s, r, tensor_is_rows(x) ? gw_coalesce(s, x) : gw_contiguous(s, x));
        if (gw_ok(s)) r->results[at->leaves[i]] = handle_retain(x);
    }
}

// ---- Sparse ones --------------------------------------------------------------------------------
// Each member contributes its number of rows, -1: it has no gradient at all, and their indices, and their values. The
// owner of the mean adds all rows, in the order of ranks.

static gw_tensor *as_rows(gw_scope *s, gw_tensor *x, const gw_tensor *leaf) {
    if (tensor_is_rows(x)) return gw_coalesce(s, x);
    gw_tensor *all = gw_arange(s, GW_I64, 0, (double)leaf->sizes[0], 1);
    return gw_rows(s, all, x, leaf->sizes[0]);
}

static gw_tensor *no_values(gw_scope *s, const gw_tensor *leaf) {
    int64_t *sizes = gw_alloc(s, (size_t)leaf->dims * sizeof *sizes);
    if (!sizes) return tensor_poison_of(s);
    for (int d = 0; d < leaf->dims; d++) sizes[d] = d ? leaf->sizes[d] : 0;
    return gw_zeros_with(s, (gw_dtype)leaf->dtype, (gw_shape){ leaf->dims, sizes });
}

static gw_future *gather(gw_scope *s, const ddp_pass *r, int leaf, gw_tensor *x) {
    const gw_ddp *d = r->ddp;
    gw_collective_options options =
        GW_OPTIONS(gw_collective_options, .origin = bucket_origin(s, r));
    if (!d->sharing) return gw_all_gather_async_with(s, d->group, x, options);
    return gw_gather_to_async_with(s, d->group, x, d->sharing->owners[leaf], options);
}

gw_future *bucket_start_rows(gw_scope *s, const ddp_pass *r, int b) {
    int leaf = r->layout->buckets[b].leaves[0];
    const gw_tensor *x = r->ddp->gate.leaves[leaf];
    gw_tensor *rows = r->gradients[leaf] ? as_rows(s, r->gradients[leaf], x) : NULL;
    int64_t one = 1, count = -1;
    gw_tensor *values = rows ? gw_rows_values(s, rows) : no_values(s, x);
    if (rows && gw_ok(s)) count = values->sizes[0];
    gw_tensor *indices = gw_from_with(s, GW_I64, &count, (gw_shape){ 1, &one });
    if (rows)
        indices = gw_cat(
            s, (gw_tensor *[]){ indices, gw_to_dtype(s, gw_rows_indices(s, rows), GW_I64) }, 2, 0);
    if (!gw_ok(s)) return NULL;
    gw_future *both[] = { gather(s, r, leaf, indices), gather(s, r, leaf, values) };
    return gw_collect_all(s, both, 2);
}

// The indices of all members, without the counts. NULL if there is no gradient, or with |s| failed.
static gw_tensor *indices_of(gw_scope *s, const gw_ddp *d, gw_tensor *received, int64_t row_count) {
    const int64_t *from = gw_data(received);
    int64_t *all = gw_alloc(s, ((size_t)row_count + 1) * sizeof *all), end = received->numel,
            at = 0;
    int64_t found = 0;
    bool is_used = false;
    for (int m = 0; all && m < d->stats.world_size; m++) {
        int64_t count = at < end ? from[at++] : -2;
        if (count < -1 || count > end - at || count > row_count - found) {
            scope_fail(s, GW_MISMATCH, "%s has sent another number of rows than it had reported",
                       gw_group_worker(s, d->group, m).name);
            return NULL;
        }
        is_used = is_used || count >= 0;
        for (; count > 0; count--) all[found++] = from[at++];
    }
    return is_used ? gw_from_with(s, GW_I64, all, (gw_shape){ 1, &found }) : NULL;
}

void bucket_unpack_rows(gw_scope *s, ddp_pass *r, int b, gw_value all) {
    const gw_ddp *d = r->ddp;
    int leaf = r->layout->buckets[b].leaves[0];
    if (!ddp_keeps(d, leaf)) return;
    gw_list *both = gw_list_of(s, all);
    gw_tensor *received = gw_tensor_of(s, gw_list_get(s, both, 0));
    gw_tensor *values = gw_tensor_of(s, gw_list_get(s, both, 1));
    if (!gw_ok(s)) return;
    gw_tensor *indices = indices_of(s, d, received, values->sizes[0]);
    if (!gw_ok(s) || !indices) return;
    gw_tensor *sum = gw_coalesce(s, gw_rows(s, indices, values, d->gate.leaves[leaf]->sizes[0]));
    sum = mean_of_shards(s, r, gw_div(s, sum, r->divisor));
    if (gw_ok(s)) r->results[leaf] = handle_retain(sum);
}

// ---- Looking at them ----------------------------------------------------------------------------

static bool check_leaf(gw_scope *s, const ddp_pass *r, int leaf) {
    gw_tensor *x = r->gradients[leaf];
    if (!x) return true;
    gw_scope *t = gw_scope_open(s);
    gw_tensor *numbers = tensor_is_rows(x) ? gw_rows_values(t, x) : x;
    const double *at = gw_data(gw_contiguous(t, gw_to_dtype(t, numbers, GW_F64)));
    int64_t count = gw_numel(numbers), i = 0;
    while (at && i < count && at[i] - at[i] == 0) i++;
    if (at && i < count)
        scope_fail(s, GW_INVALID, "\"%s\"[%lld] is %s", r->ddp->names[leaf], (long long)i,
                   at[i] != at[i] ? "nan" : "infinite");
    gw_scope_close_up(t);
    return gw_ok(s);
}

bool bucket_check_finite(gw_scope *s, const ddp_pass *r, int b) {
    const layout_bucket *at = &r->layout->buckets[b];
    for (int i = 0; i < at->count; i++)
        if (!check_leaf(s, r, at->leaves[i])) return false;
    return true;
}

// ---- The bucket as hooks see it -----------------------------------------------------------------------------

static const layout_bucket *bucket_of(const gw_bucket *b) {
    return &b->layout->buckets[b->index];
}

int gw_bucket_index(const gw_bucket *b) {
    return b->index;
}

int gw_bucket_count(const gw_bucket *b) {
    return b->layout->bucket_count;
}

bool gw_bucket_is_last(const gw_bucket *b) {
    return b->index == b->layout->bucket_count - 1;
}

gw_group *gw_bucket_group(const gw_bucket *b) {
    return b->ddp->group;
}

gw_tensor *gw_bucket_tensor(gw_scope *s, const gw_bucket *b) {
    return gw_ok(s) ? b->flat : tensor_poison_of(s);
}

int gw_bucket_parameter_count(const gw_bucket *b) {
    return bucket_of(b)->count;
}

static bool check_index(gw_scope *s, const gw_bucket *b, int index) {
    if (gw_ok(s) && (index < 0 || index >= bucket_of(b)->count))
        scope_fail(s, GW_INVALID, "index %d out of range for the %d parameters of the bucket",
                   index, bucket_of(b)->count);
    return gw_ok(s);
}

gw_tensor *gw_bucket_parameter(gw_scope *s, const gw_bucket *b, int index) {
    if (!check_index(s, b, index)) return tensor_poison_of(s);
    return b->ddp->gate.leaves[bucket_of(b)->leaves[index]];
}

gw_tensor *gw_bucket_gradient(gw_scope *s, const gw_bucket *b, int index) {
    if (!check_index(s, b, index)) return tensor_poison_of(s);
    const layout_bucket *at = bucket_of(b);
    int64_t offset = 0;
    for (int i = 0; i < index; i++) offset += b->ddp->gate.leaves[at->leaves[i]]->numel;
    const gw_tensor *x = b->ddp->gate.leaves[at->leaves[index]];
    return gw_reshape_with(s, gw_slice(s, b->flat, 0, offset, offset + x->numel, 1),
                           (gw_shape){ x->dims, x->sizes });
}
