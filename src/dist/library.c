// What every worker serves by itself.
#include "dist/optimizer.h"

const gw_registration *const library_tables[] = { optimizer_registrations, clipping_registrations,
                                                  NULL };
