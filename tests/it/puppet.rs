//! Processes that no well-behaved program starts: any argv and environment block that execve takes, odd names, zombies.
//!
//! The standard library cannot give a process two variables of one name, or an entry without `=`; a few lines of C can.

use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
static char *block; static size_t used;
static char **strings(size_t *at) {
    size_t count = strtoul(block + *at, 0, 10); *at += strlen(block + *at) + 1;
    char **list = calloc(count + 1, sizeof *list);
    for (size_t i = 0; i < count; i++) { list[i] = block + *at; *at += strlen(block + *at) + 1; }
    return list;
}
static void rest(void) { printf("ready\n"); fflush(stdout); for (;;) pause(); }
int main(int argc, char **argv) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (argc > 2 && !strcmp(argv[1], "become")) {
        FILE *file = fopen(argv[2], "rb"); block = malloc(64 << 20); used = fread(block, 1, 64 << 20, file); fclose(file);
        size_t at = 0; char **program = strings(&at), **arguments = strings(&at), **variables = strings(&at);
        execve(program[0], arguments, variables); perror("execve"); return 1;
    }
    /* The name that argv[0] asks for after its last slash, cut by the kernel to 15 bytes. */
    char *what = getenv("PUPPET");
    if (what && !strncmp(what, "name:", 5)) prctl(PR_SET_NAME, what + 5);
    if (what && !strncmp(what, "title:", 6)) {
        char title[256]; strncpy(title, what + 6, 255); title[255] = 0;
        char *start = environ[0], *end = start; for (char **e = environ; *e; e++) end = *e + strlen(*e);
        memset(start, 0, end - start); memcpy(start, title, strlen(title) < (size_t)(end - start) ? strlen(title) : (size_t)(end - start));
    }
    if (what && !strcmp(what, "zombie")) {
        pid_t child = fork(); if (!child) _exit(0);
        siginfo_t info; waitid(P_PID, child, &info, WEXITED | WNOWAIT);
        printf("%d\n", child);
    }
    if (what && !strcmp(what, "churn")) {
        signal(SIGCHLD, SIG_IGN); printf("ready\n"); fflush(stdout);
        for (;;) {
            for (int i = 0; i < 20; i++) if (!fork()) {
                char *arguments[] = {"/bin/true", 0}, *variables[] = {"DISPLAY=:1", "A=b", 0};
                if (i % 2) execve(arguments[0], arguments, variables);
                _exit(0);
            }
            usleep(40000);
        }
    }
    rest();
}
"#;

/// The helper, compiled once. The linker that built this test is a C compiler.
pub fn program() -> &'static Path {
    static PROGRAM: OnceLock<(tempfile::TempDir, PathBuf)> = OnceLock::new();
    let (_, path) = PROGRAM.get_or_init(|| {
        let dir = tempfile::tempdir().expect("a directory");
        let (source, program) = (dir.path().join("puppet.c"), dir.path().join("puppet"));
        std::fs::write(&source, SOURCE).expect("it can be written");
        let output = Command::new("cc").arg("-O1").arg("-w").arg("-o").arg(&program).arg(&source).output().expect("cc starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        (dir, program)
    });
    path
}

/// A process under a test's full control, which ends with the value.
pub struct Puppet {
    child: Child,
    /// The first line that it printed.
    pub said: String,
    _script: tempfile::TempDir,
}

impl Puppet {
    /// A process with exactly this argv and environment block.
    pub fn new(argv: &[&[u8]], environ: &[&[u8]]) -> Puppet {
        Puppet::of(program(), Path::new("/"), argv, environ)
    }

    /// The same, of another copy of the helper and in another directory.
    pub fn of(exe: &Path, cwd: &Path, argv: &[&[u8]], environ: &[&[u8]]) -> Puppet {
        let script = tempfile::tempdir().expect("a directory");
        let list = |parts: &[&[u8]]| {
            let mut bytes = format!("{}\0", parts.len()).into_bytes();
            for part in parts {
                bytes.extend_from_slice(part);
                bytes.push(0);
            }
            bytes
        };
        let path = script.path().join("script");
        std::fs::write(&path, [list(&[exe.as_os_str().as_bytes()]), list(argv), list(environ)].concat()).expect("it can be written");
        Puppet::start(Command::new(program()).arg("become").arg(&path).current_dir(cwd), script)
    }

    /// The helper as another account would start it: any command that ends in it.
    pub fn start(command: &mut Command, script: tempfile::TempDir) -> Puppet {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("the helper starts");
        let mut said = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut said).expect("it prints a line");
        assert!(!said.is_empty(), "{command:?} did not become what it should");
        Puppet { child, said: said.trim().to_owned(), _script: script }
    }

    /// Its pid, as an argument.
    pub fn pid(&self) -> String {
        self.child.id().to_string()
    }
}

impl Drop for Puppet {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
