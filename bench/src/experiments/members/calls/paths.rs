//! What the processes of a group do while one of them is traced.

use super::{MEMBER, OWNER, THIRD};

/// Something that a process is told: which one, and the line.
pub(super) type Told = (usize, &'static str);

/// A path of a process through the group.
#[derive(Debug)]
pub(super) struct Path {
    pub name: &'static str,
    /// The process that is traced, and killed.
    pub killed: usize,
    /// The process that commits behind the kill.
    pub lives: usize,
    /// What is done before; the owner has made two commits by then.
    pub before: &'static [Told],
    /// True where the owner is killed then.
    pub without_owner: bool,
    /// What is done while the process is traced.
    pub traced: &'static [Told],
    /// What another process does at once, from a point of the traced one on.
    pub beside: Option<(u64, Told)>,
    /// True where the third process has a snapshot, which goes on behind the kill: in WAL mode only.
    pub has_snapshot: bool,
}

/// A whole life of the member.
const LIFE: &[Told] = &[
    (MEMBER, "open"),
    (MEMBER, "commit"),
    (MEMBER, "large"),
    (MEMBER, "commit"),
    (MEMBER, "roll back"),
    (MEMBER, "close"),
];

/// The paths of `--kill-at-calls`.
pub(super) const WHOLE: [Path; 2] =
    [Path::of_member("member", &[], LIFE), Path::of_owner("owner", &[], LIFE)];

/// The member is there.
const JOINED: &[Told] = &[(MEMBER, "open"), (MEMBER, "commit"), (OWNER, "commit"), (MEMBER, "read")];
/// So is a third process.
const THREE: &[Told] =
    &[(MEMBER, "open"), (MEMBER, "commit"), (THIRD, "open"), (THIRD, "commit"), (OWNER, "commit")];
/// The log is nearly as long as it may be.
const LONG_LOG: &[Told] = &[
    (MEMBER, "open"),
    (MEMBER, "commit"),
    (OWNER, "large"),
    (OWNER, "large"),
    (OWNER, "large"),
    (OWNER, "large"),
];

/// So is a third process, which has a snapshot that others have committed behind.
const SNAPSHOT: &[Told] = &[
    (MEMBER, "open"),
    (MEMBER, "commit"),
    (THIRD, "open"),
    (THIRD, "commit"),
    (OWNER, "large"),
    (MEMBER, "commit"),
    (THIRD, "hold"),
    (OWNER, "commit"),
    (MEMBER, "commit"),
];

/// The point from which on a process that takes over is the next owner.
const LEADS: u64 = 100;

/// The paths of `--kill-at-stores`.
pub(super) const EACH: [Path; 23] = [
    Path::of_member("joins", &[], &[(MEMBER, "open"), (MEMBER, "read")]),
    Path::of_member("reads", JOINED, &[(MEMBER, "read")]),
    Path::of_member("commits", JOINED, &[(MEMBER, "commit")]),
    Path::of_member("commits_more_than_it_holds", JOINED, &[(MEMBER, "large")]),
    Path::of_member("rolls_back", JOINED, &[(MEMBER, "roll back")]),
    Path::of_member("leaves", JOINED, &[(MEMBER, "close")]),
    Path { lives: THIRD, without_owner: true, ..Path::of_member("takes_over", THREE, &[(MEMBER, "commit")]) },
    Path {
        lives: THIRD,
        without_owner: true,
        beside: Some((LEADS, (THIRD, "commit"))),
        ..Path::of_member("two_take_over", THREE, &[(MEMBER, "commit")])
    },
    Path::of_owner("lets_join", &[], &[(MEMBER, "open"), (MEMBER, "read")]),
    Path::of_owner("serves_a_read", JOINED, &[(MEMBER, "read")]),
    Path::of_owner("serves_a_commit", JOINED, &[(MEMBER, "commit")]),
    Path {
        beside: Some((0, (THIRD, "commit"))),
        ..Path::of_owner("serves_two_commits", THREE, &[(MEMBER, "commit")])
    },
    Path::of_owner("serves_more_than_is_held", JOINED, &[(MEMBER, "large")]),
    Path::of_owner("serves_a_roll_back", JOINED, &[(MEMBER, "roll back")]),
    Path::of_owner("lets_leave", JOINED, &[(MEMBER, "close")]),
    Path::of_owner("owner_commits", JOINED, &[(OWNER, "commit")]),
    Path::of_owner("owner_checkpoints", LONG_LOG, &[(OWNER, "large"), (OWNER, "checkpoint")]),
    Path::of_owner("owner_leaves", JOINED, &[(OWNER, "close"), (MEMBER, "commit")]),
    Path {
        has_snapshot: true,
        ..Path::of_owner("serves_a_commit_beside_a_snapshot", SNAPSHOT, &[(MEMBER, "commit")])
    },
    Path {
        has_snapshot: true,
        ..Path::of_owner("serves_a_read_beside_a_snapshot", SNAPSHOT, &[(MEMBER, "read"), (THIRD, "look")])
    },
    Path {
        has_snapshot: true,
        ..Path::of_owner(
            "checkpoints_beside_a_snapshot",
            SNAPSHOT,
            &[(OWNER, "large"), (OWNER, "checkpoint in part"), (OWNER, "commit")],
        )
    },
    Path {
        has_snapshot: true,
        without_owner: true,
        lives: THIRD,
        ..Path::of_member("takes_over_beside_a_snapshot", SNAPSHOT, &[(MEMBER, "commit")])
    },
    Path {
        has_snapshot: true,
        without_owner: true,
        lives: THIRD,
        ..Path::of_member(
            "checkpoints_behind_a_snapshot",
            SNAPSHOT,
            &[(MEMBER, "checkpoint in part"), (MEMBER, "commit"), (MEMBER, "checkpoint in part")],
        )
    },
];

impl Path {
    const fn of_member(name: &'static str, before: &'static [Told], traced: &'static [Told]) -> Path {
        Path {
            name,
            killed: MEMBER,
            lives: OWNER,
            before,
            without_owner: false,
            traced,
            beside: None,
            has_snapshot: false,
        }
    }

    const fn of_owner(name: &'static str, before: &'static [Told], traced: &'static [Told]) -> Path {
        Path { killed: OWNER, lives: MEMBER, ..Path::of_member(name, before, traced) }
    }
}
