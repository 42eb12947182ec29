//! What takes the preload away before SQLite begins.
//!
//! The loader reads `LD_PRELOAD`. It never runs for a static program, and leaves the list out where the program gets rights that its
//! caller has not (`ld.so(8)`, secure-execution mode). Other programs start theirs with an environment of their own.

use super::elf::{Image, Machine};
use super::program::Program;
use std::ffi::{CString, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A reason why a program does not get the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// No loader links it.
    Static,
    /// It has rights of its own: another user's, or capabilities.
    Privileged,
    /// It starts others with an environment of its own: `sudo`, `su -`, `ssh`, `docker run`.
    StartsElsewhere,
    /// `env -i`, or `env -u LD_PRELOAD`.
    ClearedEnvironment,
    /// It is for another machine than the library.
    OtherMachine,
    /// Its C library is musl, and the library's is not, or the other way round.
    OtherLibc,
}

impl Obstacle {
    /// The obstacle as an identifier, for machines.
    pub fn name(self) -> &'static str {
        match self {
            Obstacle::Static => "static",
            Obstacle::Privileged => "privileged",
            Obstacle::StartsElsewhere => "starts_elsewhere",
            Obstacle::ClearedEnvironment => "cleared_environment",
            Obstacle::OtherMachine => "other_machine",
            Obstacle::OtherLibc => "other_libc",
        }
    }

    /// What is so, behind the name of the program. True whatever the program does.
    pub fn says(self) -> &'static str {
        match self {
            Obstacle::Static => "is linked statically: litefoot reaches only dynamic programs that it starts",
            Obstacle::Privileged => {
                "has rights of its own (setuid or capabilities), and the system preloads nothing into it"
            }
            Obstacle::StartsElsewhere => "starts programs with an environment of its own, without litefoot",
            Obstacle::ClearedEnvironment => {
                "is told to start its program without LD_PRELOAD, and so without litefoot"
            }
            Obstacle::OtherMachine => "is for another machine than the library, and is not reached",
            Obstacle::OtherLibc => "has another C library than litefoot's library, and cannot load it",
        }
    }

    /// What to do about it.
    pub fn way(self) -> &'static str {
        match self {
            Obstacle::Static => {
                "let it load liblitefoot.so as an extension, or build it with the system's SQLite"
            }
            Obstacle::Privileged => {
                "run it as the user whose rights it needs: there nothing is gained, and the preload stays"
            }
            Obstacle::StartsElsewhere => "turn the order round: sudo litefoot run -- PROGRAM",
            Obstacle::ClearedEnvironment => "turn the order round: env -i litefoot run -- PROGRAM",
            Obstacle::OtherMachine => "build the library for that machine, and name it in LITEFOOT_LIBRARY",
            Obstacle::OtherLibc => "build the library for that C library, and name it in LITEFOOT_LIBRARY",
        }
    }

    /// The obstacle of a program, if there is one.
    pub fn of(program: &Program, image: Option<&Image>, library: Option<&Image>) -> Option<Obstacle> {
        if let Some(obstacle) = by_command(&program.image_name(), &program.arguments) {
            return Some(obstacle);
        }
        let image = image?;
        if image.is_static() {
            return Some(Obstacle::Static);
        }
        if let Some(library) = library {
            if image.machine != library.machine && library.machine != Machine::default() {
                return Some(Obstacle::OtherMachine);
            }
            if image.is_musl() != library.is_musl() {
                return Some(Obstacle::OtherLibc);
            }
        }
        gains_rights(&program.image).then_some(Obstacle::Privileged)
    }
}

/// The obstacle that a command line is, by its name and its options.
fn by_command(name: &str, arguments: &[OsString]) -> Option<Obstacle> {
    let words: Vec<_> = arguments.iter().map(|word| word.to_string_lossy()).collect();
    // `sudo LD_PRELOAD=… PROGRAM`, `sudo litefoot run -- PROGRAM`: somebody knows.
    let is_known = words.iter().any(|word| word.contains("LD_PRELOAD=") || word.ends_with("litefoot"));
    if is_known {
        return None;
    }
    let has = |options: &[&str]| {
        words.iter().take_while(|word| word.starts_with('-')).any(|word| options.contains(&word.as_ref()))
    };
    match name {
        "sudo" | "doas" | "pkexec" | "systemd-run" | "ssh" | "machinectl" => Some(Obstacle::StartsElsewhere),
        "docker" | "podman"
            if words
                .first()
                .is_some_and(|word| ["run", "exec", "start", "compose"].contains(&word.as_ref())) =>
        {
            Some(Obstacle::StartsElsewhere)
        }
        "su" | "runuser" if has(&["-", "-l", "--login"]) => Some(Obstacle::StartsElsewhere),
        "env" => clears(&words).then_some(Obstacle::ClearedEnvironment),
        _ => None,
    }
}

/// True where the options of `env` leave `LD_PRELOAD` out.
fn clears(words: &[impl AsRef<str>]) -> bool {
    let mut words = words.iter().map(AsRef::as_ref);
    while let Some(word) = words.next() {
        match word {
            "-" | "-i" | "--ignore-environment" | "-uLD_PRELOAD" | "--unset=LD_PRELOAD" => return true,
            "-u" | "--unset" => {
                if words.next() == Some("LD_PRELOAD") {
                    return true;
                }
            }
            "-C" | "--chdir" => {
                words.next();
            }
            option if option.starts_with('-') || option.contains('=') => {}
            _ => return false,
        }
    }
    false
}

/// True where the system gives the program rights that this process has not.
fn gains_rights(path: &Path) -> bool {
    let Ok(metadata) = fs::metadata(path) else { return false };
    // SAFETY: plain system calls without arguments.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    let is_set = |bit: u32| metadata.mode() & bit != 0;
    let by_mode =
        is_set(libc::S_ISUID) && metadata.uid() != user || is_set(libc::S_ISGID) && metadata.gid() != group;
    // Root has all capabilities as it is.
    by_mode || user != 0 && has_capabilities(path)
}

fn has_capabilities(path: &Path) -> bool {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { return false };
    // SAFETY: both names end with NUL; a length of 0 asks only for the length.
    unsafe { libc::getxattr(path.as_ptr(), c"security.capability".as_ptr(), std::ptr::null_mut(), 0) > 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_clear_the_environment_are_known_by_their_options() {
        let cleared = Some(Obstacle::ClearedEnvironment);
        let elsewhere = Some(Obstacle::StartsElsewhere);
        for (line, expected) in [
            ("env -i python3", cleared),
            ("env - python3", cleared),
            ("env A=1 -u LD_PRELOAD python3", cleared),
            ("env -u HOME -i python3", cleared),
            ("env -u HOME python3 -i", None),
            ("env -C /tmp A=1 python3 - x", None),
            ("env", None),
            ("sudo python3 app.py", elsewhere),
            ("sudo -u web python3", elsewhere),
            ("sudo litefoot run -- python3", None),
            ("sudo /usr/bin/litefoot run -- python3", None),
            ("sudo LD_PRELOAD=/x.so python3", None),
            ("su - web -c x", elsewhere),
            ("su web -c x", None),
            ("docker run image", elsewhere),
            ("docker ps", None),
            ("python3 -i", None),
        ] {
            let mut words = line.split(' ');
            let name = words.next().unwrap();
            let arguments: Vec<_> = words.map(OsString::from).collect();
            assert_eq!(by_command(name, &arguments), expected, "{line}");
        }
    }

    #[test]
    fn each_obstacle_has_a_name_of_its_own() {
        let all = [
            Obstacle::Static,
            Obstacle::Privileged,
            Obstacle::StartsElsewhere,
            Obstacle::ClearedEnvironment,
            Obstacle::OtherMachine,
            Obstacle::OtherLibc,
        ];
        let names: std::collections::HashSet<_> = all.iter().map(|obstacle| obstacle.name()).collect();
        assert_eq!(names.len(), all.len());
    }
}
