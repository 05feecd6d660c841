// What every worker serves by itself. Nobody registers it: names with "gw." are the library's.
#include "dist/gradients.h"
#include "dist/module_object.h"
#include "dist/optimizer.h"
#include "rpc/gather.h"
#include "rpc/upward.h"

#include <string.h>

static const function *const tables[] = { gathering_functions, gradient_functions,
                                          clipping_functions, optimizer_functions,
                                          layer_functions };

const function *library_find(const char *name) {
    if (strncmp(name, "gw.", 3)) return NULL;
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        for (const function *f = tables[i]; f->name; f++)
            if (!strcmp(f->name, name)) return f;
    return NULL;
}
