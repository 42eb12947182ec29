use super::*;
use litefoot_bench::harness::Environment;
use litefoot_bench::options::Options;
use litefoot_bench::report::Figures;

/// A job's outcome.
enum Fake {
    Works,
    Fails,
    IsStopped,
}

impl Job for (&str, Fake) {
    fn name(&self) -> &str {
        self.0
    }

    fn run(&self, _: &str) -> litefoot_bench::Result<Report> {
        match self.1 {
            Fake::Works => {
                let mut figures = Figures::new();
                figures.set("txn_per_s.litefoot", 7.0);
                figures.set("cuts", 9.0);
                let environment = Environment::of(Path::new("."), &Options::default());
                Ok(Report { experiment: self.0.to_owned(), environment, figures })
            }
            Fake::Fails => Err(Error::Wrong("the disk <burns>".to_owned())),
            Fake::IsStopped => Err(Error::Stopped),
        }
    }
}

fn run(path: &Path, jobs: &[(&str, Fake)]) -> Result<ExitCode, Failure> {
    let jobs: Vec<&dyn Job> = jobs.iter().map(|job| job as &dyn Job).collect();
    all(path, &jobs, true, &mut Output::lock())
}

fn names(path: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(path)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn an_interrupt_keeps_what_is_done_and_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a/b");
    let jobs = [("commit", Fake::Works), ("group", Fake::IsStopped), ("crash", Fake::Works)];
    let failure = format!("{:?}", run(&path, &jobs).unwrap_err());
    assert!(failure.contains("1 of 3: commit") && failure.contains("--from"), "{failure}");
    assert_eq!(names(&path), ["commit.json", "report.html"]);
    let page = std::fs::read_to_string(path.join("report.html")).unwrap();
    assert!(page.contains("No result of group: it was not run."));
    assert!(page.contains("data-experiment=\"commit\""));
    // The rest comes later.
    run(&path, &[("crash", Fake::Works)]).unwrap();
    let files = ["commit.json", "crash.json"].map(|name| path.join(name));
    from(&path, &files, &mut Output::lock()).unwrap();
    let page = std::fs::read_to_string(path.join("report.html")).unwrap();
    assert!(page.contains("id=\"crash-cuts\"") && page.contains("id=\"commit-speed\""));
    assert!(!page.contains("was not run"));
}

#[test]
fn an_interrupt_before_anything_is_done_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let failure = run(directory.path(), &[("commit", Fake::IsStopped)]).unwrap_err();
    assert!(format!("{failure:?}").contains("before the first of 1"));
    assert!(names(directory.path()).is_empty());
}

#[test]
fn one_that_fails_keeps_no_other_from_running() {
    let directory = tempfile::tempdir().unwrap();
    let failure = run(directory.path(), &[("ssl", Fake::Fails), ("crash", Fake::Works)]).unwrap_err();
    assert!(format!("{failure:?}").contains("ssl: the disk <burns>"));
    let page = std::fs::read_to_string(directory.path().join("report.html")).unwrap();
    assert!(page.contains("No result of ssl: the disk &lt;burns&gt;") && page.contains("id=\"crash-cuts\""));
}

#[test]
fn what_others_wrote_stays_and_what_we_wrote_is_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let page = directory.path().join("report.html");
    std::fs::write(&page, "<p>of somebody else</p>").unwrap();
    let failure = run(directory.path(), &[("crash", Fake::Works)]).unwrap_err();
    assert!(format!("{failure:?}").contains("not written by litefoot"));
    assert_eq!(std::fs::read_to_string(&page).unwrap(), "<p>of somebody else</p>");
    std::fs::remove_file(&page).unwrap();
    for _ in 0..2 {
        run(directory.path(), &[("crash", Fake::Works)]).unwrap();
    }
    std::fs::remove_file(&page).unwrap();
    std::fs::create_dir(&page).unwrap();
    assert!(run(directory.path(), &[("crash", Fake::Works)]).is_err());
}
