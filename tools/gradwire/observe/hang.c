#include "observe/hang.h"

#include <stdlib.h>
#include <string.h>

#include "observe/hang_parts.h"
#include "observe/last.h"
#include "observe/show.h"
#include "observe/stacks.h"

// ---- The text -----------------------------------------------------------------------------------

static void write_heading(const hang_parts *p, const hang_options *o, FILE *out) {
    int seen = 0;
    for (int i = 0; i < p->graph.worker_count; i++) seen += p->graph.workers[i].image != NULL;
    fprintf(out, "job %s, %d worker%s%s%s\n", o->job ? o->job : "?", seen, seen == 1 ? "" : "s",
            o->cause ? ": " : "", o->cause ? o->cause : "");
    if (!p->count) fprintf(out, "no worker waits%s\n", o->min_ns ? " that long" : "");
}

static void write_waiters(const graph *g, const hang_part *p, FILE *out) {
    char text[DESCRIBE_SIZE];
    enum { DEPTH_MAX = 16 };
    for (int i = 0; i < p->waiter_count; i++) {
        int depth = p->waiters[i].depth < DEPTH_MAX ? p->waiters[i].depth : DEPTH_MAX;
        describe_node(g, p->waiters[i].node, text, sizeof text);
        fprintf(out, "%*s%s\n", 2 * (depth + 1), "", text);
    }
}

static void write_part(const graph *g, const hang_part *p, FILE *out) {
    char text[DESCRIBE_SIZE];
    if (p->is_cycle)
        fprintf(out, "cycle  of %d: each waits for the next one, and the last for the first\n",
                p->cycle_size);
    for (int i = 0; i < p->node_count; i++) {
        if (p->is_cycle)
            describe_node(g, p->nodes[i], text, sizeof text);
        else
            describe_root(g, p->nodes[i], text, sizeof text);
        fprintf(out, p->is_cycle ? "       %s\n" : "root   %s\n", text);
    }
    if (p->node_count < p->cycle_size)
        fprintf(out, "       and %d more\n", p->cycle_size - p->node_count);
    write_waiters(g, p, out);
}

static void write_records(const graph_worker *w, FILE *out) {
    const image_record *records[HANG_RECORDS];
    char text[SHOW_SIZE];
    int count =
        w->image ? last_records(w->image, (int)(w->agent - w->image->agents), records, HANG_RECORDS)
                 : 0;
    if (count) fprintf(out, "last records of %s, seconds before this report\n", w->agent->name);
    for (int i = count; i-- > 0;) {
        show_record(w->image, records[i], text, sizeof text);
        fprintf(out, "  %12.6f  %s\n",
                (double)(w->image->taken.monotonic_ns - records[i]->at_ns) * 1e-9, text);
    }
}

// The first root of each worker.
static bool is_first_of_worker(const hang_parts *p, int part) {
    int worker = p->graph.nodes[p->parts[part].nodes[0]].worker;
    for (int i = 0; i < part; i++)
        if (!p->parts[i].is_cycle && p->graph.nodes[p->parts[i].nodes[0]].worker == worker)
            return false;
    return !p->parts[part].is_cycle;
}

static const graph_worker *worker_of_root(const hang_parts *p, int part) {
    return &p->graph.workers[p->graph.nodes[p->parts[part].nodes[0]].worker];
}

static void write_text(const hang_parts *p, const hang_options *o, FILE *out) {
    write_heading(p, o, out);
    for (int i = 0; i < p->count; i++) write_part(&p->graph, &p->parts[i], out);
    for (int i = 0; i < p->count; i++)
        if (is_first_of_worker(p, i)) write_records(worker_of_root(p, i), out);
    stacks_budget budget = stacks_begin(o->stacks_ms);
    for (int i = 0; o->stacks_ms && i < p->count; i++) {
        const graph_worker *w = worker_of_root(p, i);
        if (is_first_of_worker(p, i) && w->image && w->image->life == IMAGE_RUNS)
            stacks_write(&budget, w->image->pid, w->agent->name, out);
    }
}

// At most |lines_max| lines of |text|.
static void copy_lines(const char *text, int lines_max, FILE *out) {
    int count = 0, written = 0;
    for (const char *at = text; *at; at++) count += *at == '\n';
    int most = count > lines_max ? lines_max - 1 : count;
    const char *end = text;
    while (written < most) {
        end = strchr(end, '\n') + 1;
        written++;
    }
    fwrite(text, 1, (size_t)(end - text), out);
    if (most < count) fprintf(out, "and %d more lines\n", count - most);
}

int hang_report(const image *images, int count, const hang_options *o, FILE *out) {
    hang_parts p;
    char *text = NULL;
    size_t size;
    if (!hang_parts_find(images, count, o->min_ns, o->pid, &p)) return -1;
    int found = p.count;
    FILE *memory = o->json ? NULL : open_memstream(&text, &size);
    if (o->json)
        hang_write_json(&p, o, out);
    else if (memory)
        write_text(&p, o, memory);
    if (memory && fclose(memory) == 0 && text)
        copy_lines(text, o->lines_max > 0 ? o->lines_max : HANG_LINES_MAX, out);
    else if (!o->json)
        found = -1;
    free(text);
    hang_parts_free(&p);
    return found;
}
