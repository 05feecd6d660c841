// The table of the subcommands, and the exit codes that they share.
#ifndef GRADWIRE_COMMAND_H
#define GRADWIRE_COMMAND_H

// As env, nohup and timeout use them: a program that was run has all the others to itself.
enum {
    EXIT_USAGE = 2,
    EXIT_OUTPUT_LOST = 1,
    EXIT_LEFT_BEHIND =
        1,  // a rank exited with 0 before it had left its job, and does not start again
    EXIT_OWN_FAILURE = 125,
    EXIT_NOT_EXECUTABLE = 126,
    EXIT_NOT_FOUND = 127,
    EXIT_SIGNAL = 128,  // plus the signal's number
};

typedef struct command {
    const char *name;
    const char *summary;                // for gradwire --help
    int (*run)(int argc, char **argv);  // argv[0] is the subcommand; returns the exit code
} command;

int run_command(int argc, char **argv);
int doctor_command(int argc, char **argv);
int ca_command(int argc, char **argv);
int key_command(int argc, char **argv);
int monitor_command(int argc, char **argv);
int ps_command(int argc, char **argv);
int dump_command(int argc, char **argv);
int hang_command(int argc, char **argv);
int stop_command(int argc, char **argv);
int top_command(int argc, char **argv);
int trace_command(int argc, char **argv);

#endif
