//! Pairs that must not be opened: each is refused with a message, and nothing is written.

use super::*;

type Files = Vec<(PathBuf, FileKind, Vec<u8>)>;

/// A file with chunks away, and the device, as a process that ended has left them.
fn away() -> Files {
    let (sim, medium) = medium(20_000);
    let file = open_with(&medium, &config(8, PolicyKind::Lru)).unwrap();
    file.write_at(&[9; 5000], 4000).unwrap();
    file.sync().unwrap();
    assert!(file.away() > 2);
    drop(file);
    sim.files()
}

fn with(files: &Files, path: &str, change: impl FnOnce(&mut Vec<u8>)) -> Files {
    let mut files = files.clone();
    change(&mut files.iter_mut().find(|(name, _, _)| name == Path::new(path)).unwrap().2);
    files
}

fn bytes_of(files: &Files, path: &str) -> Vec<u8> {
    files.iter().find(|(name, _, _)| name == Path::new(path)).unwrap().2.clone()
}

/// The error, after a look at the files: none has changed.
fn refusal(files: Files) -> Error {
    let sim = SimMedium::with_files(files);
    let before = sim.files();
    let medium: Arc<dyn Medium> = Arc::new(sim.clone());
    let error = open_with(&medium, &config(8, PolicyKind::Lru)).err().expect("it was opened");
    assert!(before == sim.files(), "something was written: {error}");
    error
}

/// The same pair, opened once more and left.
fn opened_again(files: &Files) -> Files {
    let sim = SimMedium::with_files(files.clone());
    let medium: Arc<dyn Medium> = Arc::new(sim.clone());
    drop(open_with(&medium, &config(8, PolicyKind::Lru)).unwrap());
    sim.files()
}

#[test]
fn a_device_that_is_not_there_is_missing() {
    let without: Files = away().into_iter().filter(|(path, _, _)| path == Path::new(FLASH)).collect();
    let empty = with(&away(), TIER, Vec::clear);
    let zeros = with(&away(), TIER, |bytes| bytes.fill(0));
    for files in [without, empty, zeros] {
        let error = refusal(files);
        assert!(matches!(error, Error::Missing { .. }), "{error}");
        assert!(error.to_string().contains(TIER) && error.to_string().contains(FLASH), "{error}");
    }
}

#[test]
fn another_files_device_is_foreign() {
    let (sim, medium) = medium(20_000);
    let path = Path::new("/other.db");
    let other = medium.open(path, FileKind::Database, OpenMode::Create).unwrap();
    other.write_at(&content(20_000), 0).unwrap();
    let file = TieredFile::open(other, &medium, Path::new(TIER), &config(8, PolicyKind::Lru)).unwrap();
    file.write_at(&[9; 5000], 4000).unwrap();
    drop(file);
    let others = bytes_of(&sim.files(), TIER);
    let error = refusal(with(&away(), TIER, |bytes| *bytes = others));
    assert!(matches!(&error, Error::Foreign { owner, .. } if owner == path), "{error}");
    // The same path, but another time that chunks left.
    let (ours, once) = (away(), bytes_of(&away(), TIER));
    let error = refusal(with(&ours, TIER, |bytes| *bytes = once));
    assert!(matches!(error, Error::Stale { .. }), "{error}");
}

#[test]
fn a_plain_file_does_not_take_the_device_of_one_at_another_path() {
    let sim = SimMedium::with_files(away());
    let medium: Arc<dyn Medium> = Arc::new(sim);
    let other = medium.open(Path::new("/other.db"), FileKind::Database, OpenMode::Create).unwrap();
    let error = TieredFile::open(other, &medium, Path::new(TIER), &config(8, PolicyKind::Lru)).err().unwrap();
    assert!(matches!(&error, Error::Foreign { owner, .. } if owner == Path::new(FLASH)), "{error}");
    assert!(error.to_string().contains("drain"), "{error}");
}

#[test]
fn old_copies_of_either_are_stale() {
    let first = away();
    let later = opened_again(&opened_again(&first));
    for (path, old) in [(TIER, bytes_of(&first, TIER)), (FLASH, bytes_of(&first, FLASH))] {
        let error = refusal(with(&later, path, |bytes| *bytes = old));
        assert!(matches!(error, Error::Stale { .. }), "{path}: {error}");
    }
    // The file was restored from a copy of before chunks left.
    let error = refusal(with(&later, FLASH, |bytes| *bytes = content(20_000)));
    assert!(matches!(error, Error::Stale { .. }), "{error}");
}

#[test]
fn damage_and_other_files_are_refused_by_name() {
    let flip = |at: usize| move |bytes: &mut Vec<u8>| bytes[at] ^= 1;
    let cases: [(&str, Files, &str); 8] = [
        ("header", with(&away(), TIER, flip(40)), "its header is damaged"),
        ("magic", with(&away(), TIER, flip(3)), "not a tier device"),
        ("entry", with(&away(), TIER, flip(4096 + 9)), "the entry of slot 0 is damaged"),
        ("mark", with(&away(), FLASH, flip(30)), "its mark of a tiered file is damaged"),
        ("cut device", with(&away(), TIER, |bytes| bytes.truncate(5000)), "shorter than its header says"),
        ("cut file", with(&away(), FLASH, |bytes| bytes.truncate(1000)), "shorter than it can be"),
        (
            "a text",
            vec![
                (FLASH.into(), FileKind::Database, content(9000)),
                (TIER.into(), FileKind::Tier, b"diary".to_vec()),
            ],
            "not a tier device",
        ),
        (
            "zeros and a text",
            vec![
                (FLASH.into(), FileKind::Database, content(9000)),
                (TIER.into(), FileKind::Tier, [vec![0; 9000], b"diary".to_vec()].concat()),
            ],
            "not a tier device",
        ),
    ];
    for (name, files, part) in cases {
        let error = refusal(files).to_string();
        assert!(error.contains(part), "{name}: {error}");
    }
}

#[test]
fn one_device_one_database() {
    let (_, medium) = medium(9000);
    let first = open_with(&medium, &config(8, PolicyKind::Lru)).unwrap();
    let other = medium.open(Path::new("/other.db"), FileKind::Database, OpenMode::Create).unwrap();
    let error = TieredFile::open(other, &medium, Path::new(TIER), &config(8, PolicyKind::Lru)).err().unwrap();
    assert!(matches!(error, Error::InUse { .. }), "{error}");
    drop(first);
    let error = TieredFile::open(flash(&medium), &medium, Path::new(FLASH), &config(8, PolicyKind::Lru))
        .err()
        .unwrap();
    assert!(matches!(error, Error::NotATier { .. }), "{error}");
    let error = TieredFile::open(flash(&medium), &medium, Path::new("/small"), &config(3, PolicyKind::Lru))
        .err()
        .unwrap();
    assert!(matches!(error, Error::TooSmall { .. }), "{error}");
}

#[test]
fn the_mark_tells_where_the_device_was() {
    let sim = SimMedium::with_files(away());
    let medium: Arc<dyn Medium> = Arc::new(sim.clone());
    assert_eq!(crate::tier_of(&*flash(&medium)).unwrap(), Some(PathBuf::from(TIER)));
    let file = open_with(&medium, &config(8, PolicyKind::Lru)).unwrap();
    file.drain().unwrap();
    assert_eq!(crate::tier_of(&*flash(&medium)).unwrap(), None);
}
