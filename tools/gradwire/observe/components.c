#include "observe/components.h"

#include <stdlib.h>

// Tarjan, Depth-first search and linear graph algorithms (1972), with a stack of its own.
typedef struct search {
    const int *first, *to;
    int *order, *lowest;  // by node; |order| 0: not visited
    int *next_edge;
    int *path, path_count;  // from the start to the node that is visited
    int *open, open_count;  // visited, and in no component yet
    bool *is_open;
    int visited, components;
    int *component;
} search;

static void enter(search *s, int node) {
    s->order[node] = s->lowest[node] = ++s->visited;
    s->next_edge[node] = s->first[node];
    s->path[s->path_count++] = node;
    s->open[s->open_count++] = node;
    s->is_open[node] = true;
}

static void lower(search *s, int node, int to) {
    if (to < s->lowest[node]) s->lowest[node] = to;
}

static void leave(search *s, int node) {
    s->path_count--;
    if (s->path_count) lower(s, s->path[s->path_count - 1], s->lowest[node]);
    if (s->lowest[node] != s->order[node]) return;
    for (int other = -1; other != node;) {
        other = s->open[--s->open_count];
        s->is_open[other] = false;
        s->component[other] = s->components;
    }
    s->components++;
}

static void visit_from(search *s, int start) {
    enter(s, start);
    while (s->path_count) {
        int node = s->path[s->path_count - 1];
        if (s->next_edge[node] == s->first[node + 1]) {
            leave(s, node);
            continue;
        }
        int to = s->to[s->next_edge[node]++];
        if (!s->order[to])
            enter(s, to);
        else if (s->is_open[to])
            lower(s, node, s->order[to]);
    }
}

int components_find(const int *first, const int *to, int count, int *out_component) {
    size_t n = (size_t)count + 1;
    int *numbers = calloc(5 * n, sizeof *numbers);
    bool *is_open = calloc(n, sizeof *is_open);
    search s = { .first = first, .to = to, .is_open = is_open, .component = out_component };
    int result = -1;
    if (numbers && is_open) {
        s.order = numbers;
        s.lowest = numbers + n;
        s.next_edge = numbers + 2 * n;
        s.path = numbers + 3 * n;
        s.open = numbers + 4 * n;
        for (int node = 0; node < count; node++)
            if (!s.order[node]) visit_from(&s, node);
        result = s.components;
    }
    free(numbers);
    free(is_open);
    return result;
}
