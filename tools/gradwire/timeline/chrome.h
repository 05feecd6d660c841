// A timeline as trace events of Chrome in JSON, for chrome://tracing, speedscope and others; a stream, written by hand.
#ifndef GRADWIRE_CHROME_H
#define GRADWIRE_CHROME_H

#include <stdio.h>

#include "timeline/visit.h"

typedef struct chrome chrome;

// NULL without memory.
chrome *chrome_open(FILE *to);
visitor chrome_visitor(chrome *c);

// Writes what is left. Returns false, with errno, if something could not be written.
bool chrome_close(chrome *c);

#endif
