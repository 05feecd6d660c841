// What every worker serves by itself.
#include "dist/gradients.h"
#include "dist/optimizer.h"

const gw_registration *const library_tables[] = { gradient_registrations, optimizer_registrations,
                                                  clipping_registrations, NULL };
