//! A worker's clock that can be set while it runs: a library that is loaded before the C library, and adds what a file
//! says to the time of day. The monotonic clock stays as it is, as when an administrator sets a machine's clock.

use anyhow::Result;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
static volatile long *offset;
__attribute__((constructor)) static void start(void) {
    const char *path = getenv("FLEET_CLOCK");
    int file = path ? open(path, O_RDONLY) : -1;
    void *page = file < 0 ? MAP_FAILED : mmap(0, 8, PROT_READ, MAP_SHARED, file, 0);
    if (page != MAP_FAILED) offset = page;
}
int clock_gettime(clockid_t clock, struct timespec *time) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(clock, time);
    if (offset && clock == CLOCK_REALTIME) time->tv_sec += *offset;
    return result;
}
"#;

/// The library, if this machine can build it.
pub struct Clock(PathBuf);

impl Clock {
    /// Builds it, or says on stderr that clocks do not jump.
    pub fn build(folder: &Path) -> Result<Option<Self>> {
        let (source, library) = (folder.join("clock.c"), folder.join("clock.so"));
        fs::write(&source, SOURCE)?;
        let mut build = Command::new("cc");
        build.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(&source).arg("-ldl");
        let built = build.output().is_ok_and(|output| output.status.success());
        if !built {
            eprintln!(
                "SKIPPED: no C compiler builds the library that sets clocks (Debian: apt-get install gcc); no clock jumps"
            );
        }
        Ok(built.then_some(Self(library)))
    }

    /// Gives a process a clock of its own, which a file sets.
    pub fn give(&self, command: &mut Command, file: &Path) -> Result<()> {
        set(file, 0)?;
        command.env("LD_PRELOAD", &self.0).env("FLEET_CLOCK", file);
        Ok(())
    }
}

/// Sets a clock this many seconds ahead of the machine's.
pub fn set(file: &Path, seconds: i64) -> Result<()> {
    use std::io::Write as _;
    // Not replaced: the process has mapped this very file.
    let mut file = fs::OpenOptions::new().create(true).write(true).truncate(false).open(file)?;
    Ok(file.write_all(&seconds.to_ne_bytes())?)
}
