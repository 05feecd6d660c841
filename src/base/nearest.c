#include "base/nearest.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int least(int a, int b) {
    return a < b ? a : b;
}

static bool are_same(char a, char b) {
    return tolower((unsigned char)a) == tolower((unsigned char)b) || (a == '_' && b == '-') ||
           (a == '-' && b == '_');
}

// The number of characters that are left out, added, changed or exchanged with their neighbour (Damerau's distance,
// with each character exchanged once).
static int distance_of(const char *a, int a_size, const char *b, int b_size) {
    int rows[3][GW_NAME_MAX + 2], *before = rows[0], *above = rows[1], *row = rows[2];
    for (int j = 0; j <= b_size; j++) above[j] = j;
    for (int i = 1; i <= a_size; i++) {
        row[0] = i;
        for (int j = 1; j <= b_size; j++) {
            int changed = above[j - 1] + !are_same(a[i - 1], b[j - 1]);
            row[j] = least(changed, 1 + least(above[j], row[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = least(row[j], before[j - 2] + 1);
        }
        int *last = before;
        before = above;
        above = row;
        row = last;
    }
    return above[b_size];
}

static int limit_of(const char *wanted) {
    return (int)strlen(wanted) / 3;
}

nearest nearest_to(const char *wanted) {
    nearest n = { .wanted = wanted ? wanted : "" };
    if (strlen(n.wanted) > GW_NAME_MAX) n.wanted = "";
    n.distance = limit_of(n.wanted) + 1;
    return n;
}

void nearest_offer(nearest *n, const char *name) {
    int size = (int)strlen(name), wanted_size = (int)strlen(n->wanted);
    if (size > GW_NAME_MAX || abs(size - wanted_size) > limit_of(n->wanted)) return;
    int distance = distance_of(n->wanted, wanted_size, name, size);
    bool is_nearer = distance < n->distance ||
                     (distance == n->distance && n->name[0] && strcmp(name, n->name) < 0);
    if (!is_nearer) return;
    n->distance = distance;
    memcpy(n->name, name, (size_t)size + 1);
}

const char *nearest_words(nearest *n) {
    n->words[0] = '\0';
    if (n->name[0]) snprintf(n->words, sizeof n->words, "; did you mean \"%s\"?", n->name);
    return n->words;
}
