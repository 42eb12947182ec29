//! Power cuts across both devices at once.

use super::*;

/// A step of a run, by the operations of the medium it took.
struct Done {
    end: usize,
    content: Vec<u8>,
    /// True if everything before is durable once it is done.
    durable: bool,
    drained: bool,
    /// The stamp that it set, while chunks were away.
    stamp: Option<i128>,
    /// True if it changes nothing that a stamp tells of.
    is_neutral: bool,
    /// For a person who looks into a failure.
    what: String,
}

/// What stamps say: the file is that of the stamp, to the byte.
struct Stamps<'a> {
    history: &'a [Done],
    /// Of these, so many were finished.
    finished: usize,
}

impl Stamps<'_> {
    fn check(&self, file: &TieredFile, found: &[u8]) -> Result<(), String> {
        let stamp = file.stamp().map_err(|error| error.to_string())?.modified;
        let told = self.history.iter().find(|done| done.stamp == Some(stamp));
        if told.is_some_and(|done| done.content != found) {
            return Err("it has the stamp of another content".to_owned());
        }
        let newest = self.history.iter().rposition(|done| !done.is_neutral);
        let newest =
            newest.filter(|newest| *newest < self.finished).and_then(|newest| self.history[newest].stamp);
        if file.away() > 0 && newest.is_some_and(|newest| newest != stamp) {
            return Err("it has lost its stamp, and was not written".to_owned());
        }
        Ok(())
    }
}

/// The contents that a cut may have left: any mixture of the sectors of these contents.
struct Allowed<'a>(&'a [Done]);

impl Allowed<'_> {
    fn check(&self, found: &[u8]) -> Result<(), String> {
        let lengths = self.0.iter().map(|done| done.content.len());
        let (least, most) = (lengths.clone().min().unwrap(), lengths.max().unwrap());
        if found.len() < least || found.len() > most {
            return Err(format!("{} bytes are not between {least} and {most}", found.len()));
        }
        for (number, sector) in found.chunks(SECTOR_BYTES).enumerate() {
            let start = number * SECTOR_BYTES;
            let known = self.0.iter().enumerate().any(|(index, done)| {
                // A cut that has not happened, and after which the file did not grow, shows no zeros either but in
                // the sector that it ends in.
                let reaches = done.content.len() > start
                    || self.0[index..].iter().any(|later| later.content.len() >= found.len());
                let version = done.content.get(start..).unwrap_or_default();
                let same = |(at, byte): (usize, &u8)| *byte == version.get(at).copied().unwrap_or(0);
                reaches && sector.iter().enumerate().all(same)
            });
            if !known {
                return Err(format!("sector {number} is none of its {} versions", self.0.len()));
            }
        }
        Ok(())
    }
}

/// Opens what a cut has left, and compares; `second` cuts again while it is opened, or brings everything home.
fn verify(
    image: &SimMedium,
    config: &Config,
    (allowed, stamps): (&Allowed<'_>, &Stamps<'_>),
    random: &mut Random,
    again: bool,
) -> Result<usize, String> {
    let flash = raw(image, FLASH);
    if !mark_in(&flash) {
        allowed.check(&flash).map_err(|what| format!("stock SQLite would read: {what}"))?;
    } else if flash.starts_with(MAGIC) {
        return Err("marked, and stock SQLite would read it".to_owned());
    }
    let medium: Arc<dyn Medium> = Arc::new(image.clone());
    let file = open_with(&medium, config).map_err(|error| format!("cannot be opened: {error}"))?;
    let found = all_of(&*file);
    allowed.check(&found)?;
    stamps.check(&file, &found)?;
    if !again {
        return Ok(1);
    }
    if random.one_in(2) {
        file.drain().map_err(|error| format!("cannot come home: {error}"))?;
        if raw(image, FLASH) != found {
            return Err("what came home is not what was read".to_owned());
        }
    }
    drop(file);
    // A cut while it was opened, or while it came home.
    let mut replay = image.replay();
    replay.advance(random.below(replay.len() as u64 + 1) as usize);
    Ok(1 + verify(&replay.cut(random), config, (allowed, stamps), random, false)?)
}

/// The policies of the runs, by turns.
const POLICIES: [(PolicyKind, Transactions); 4] = [
    (PolicyKind::Ewma, Transactions::Synced),
    (PolicyKind::Lru, Transactions::Synced),
    (PolicyKind::Ewma, Transactions::Told),
    (PolicyKind::Ewma, Transactions::Told),
];

/// Runs, cut at random moments, until there were so many cuts; answers how many, and the first failure.
fn power_cuts(seed: u64, skipped: Option<Barrier>, cuts: usize) -> (usize, Option<String>) {
    let mut done = 0;
    for run in 0.. {
        if done >= cuts {
            break;
        }
        let mut random = Random::new(seed.wrapping_mul(1_000_003).wrapping_add(run));
        let (kind, transactions) = POLICIES[run as usize % POLICIES.len()];
        // The entries of up to 16 slots share a sector, which is never torn.
        let large = random.one_in(3);
        let slots = if large { 17 + random.below(20) } else { 4 + random.below(9) };
        let wear_gap = 1 + random.below(4);
        let config = Config { skipped, wear_gap, transactions, ..config(slots as u32, kind) };
        // Some begin as less than a chunk.
        let small = random.one_in(4);
        let most = [20_000, 80_000, CHUNK_BYTES as u64, CHUNK_BYTES as u64];
        let bytes = 16 + random.below(most[usize::from(large) + 2 * usize::from(small)]);
        let (sim, history) = record(&config, bytes as usize, &mut random);
        let sound = Config { skipped: None, ..config };
        let mut replay = sim.replay();
        let mut moments: Vec<usize> =
            (0..400).map(|_| random.below(replay.len() as u64 + 1) as usize).collect();
        moments.sort_unstable();
        for cut in moments {
            replay.advance(cut);
            let image = replay.cut(&mut random);
            let finished = history.partition_point(|step| step.end <= cut);
            let durable = history[..finished].iter().rposition(|step| step.durable).unwrap_or(0);
            // The step that was on its way counts as well.
            let until = (finished + 1).min(history.len());
            let allowed = Allowed(&history[durable..until]);
            let stamps = Stamps { history: &history[..until], finished };
            let again = random.one_in(4);
            let verdict = verify(&image, &sound, (&allowed, &stamps), &mut random, again).and_then(|more| {
                done += more;
                let free = finished > 0 && history[finished - 1].drained && history[finished - 1].end == cut;
                if free { is_free(&replay.cut(&mut random), &sound) } else { Ok(()) }
            });
            if let Err(what) = verdict {
                let steps = &history[finished.saturating_sub(20)..(finished + 1).min(history.len())];
                let steps: Vec<String> =
                    steps.iter().map(|step| format!("{} {}", step.end, step.what)).collect();
                let operations = replay.describe(cut.saturating_sub(60)..cut + 1);
                let place = format!("seed {seed}, run {run}, cut at {cut} of {}", replay.len());
                return (done, Some(format!("{place}: {what}\n{}\n{operations}", steps.join("\n"))));
            }
        }
    }
    (done, None)
}

/// A run of steps, and what the file held after each.
fn record(config: &Config, bytes: usize, random: &mut Random) -> (SimMedium, Vec<Done>) {
    let mut plain = content(bytes);
    let (sim, medium) = medium(plain.len());
    let mut history = vec![Done {
        end: 0,
        content: plain.clone(),
        durable: true,
        drained: false,
        stamp: None,
        is_neutral: false,
        what: "opened".to_owned(),
    }];
    let mut file = Some(open_with(&medium, config).unwrap());
    for _ in 0..60 {
        let step = step(random, plain.len() as u64);
        apply(&step, &mut plain);
        if perform(&step, &mut file, &medium, config).is_err() {
            // Without a barrier the pair may be refused right away; with all of them it never is.
            assert!(config.skipped.is_some(), "{step:?}");
            break;
        }
        let is_stamp = matches!(step, Step::Stamp);
        let stamped = file.as_ref().filter(|file| is_stamp && file.away() > 0);
        history.push(Done {
            end: sim.operations(),
            content: plain.clone(),
            durable: is_stamp || matches!(step, Step::Sync | Step::Drain | Step::Write(_, _, true)),
            drained: matches!(step, Step::Drain),
            stamp: stamped.map(|file| file.stamp().unwrap().modified),
            is_neutral: matches!(step, Step::Sync | Step::Reopen),
            what: step.to_string(),
        });
    }
    (sim, history)
}

/// After a drain the device is anybody's.
fn is_free(image: &SimMedium, config: &Config) -> Result<(), String> {
    let medium: Arc<dyn Medium> = Arc::new(image.clone());
    let other = medium.open(Path::new("/other.db"), FileKind::Database, OpenMode::Create).unwrap();
    TieredFile::open(other, &medium, Path::new(TIER), config)
        .map(drop)
        .map_err(|error| format!("drained, and not free: {error}"))
}

/// `LITEFOOT_CUTS` asks for more.
#[test]
fn power_cuts_leave_what_was_synced_whichever_device_has_it() {
    let cuts = std::env::var("LITEFOOT_CUTS").ok().and_then(|cuts| cuts.parse().ok()).unwrap_or(6000);
    let (done, failure) = power_cuts(7, None, cuts);
    assert!(failure.is_none(), "{}", failure.unwrap_or_default());
    eprintln!("{done} power cuts");
}

#[test]
fn every_ordering_edge_left_out_is_noticed() {
    for barrier in Barrier::ALL {
        let (cuts, failure) = power_cuts(3, Some(barrier), 40_000);
        assert!(failure.is_some(), "nothing went wrong without {barrier:?} in {cuts} cuts");
        eprintln!("{barrier:?}: {}", failure.unwrap_or_default().lines().next().unwrap_or_default());
    }
}
