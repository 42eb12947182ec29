//! Buckets of a real S3 server: one shipper, no secret told, and lines that break.

use crate::litestream::litestream;
use crate::support::{run, stderr_of, succeed};
use crate::{CHANGE, Case, PATIENCE, SCHEMA, Service, counted};
use litefoot_testkit::sqlite::number;
use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// An S3 server on a local address, ended with the test: moto, by LITEFOOT_MOTO or on the PATH.
struct S3 {
    child: Child,
    address: String,
}

impl S3 {
    fn start() -> Option<S3> {
        let program = std::env::var_os("LITEFOOT_MOTO").unwrap_or_else(|| "moto_server".into());
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut command = Command::new(program);
        command
            .args(["-H", "127.0.0.1", "-p", &port.to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let Ok(child) = command.spawn() else {
            eprintln!("skipped: moto_server is neither on the PATH nor in LITEFOOT_MOTO");
            return None;
        };
        let mut server = S3 { child, address: format!("127.0.0.1:{port}") };
        let began = Instant::now();
        while !server.ask("PUT /bucket HTTP/1.1").contains(" 200 ") {
            // As a shell says it: what is on the PATH stands for a program that is not there.
            if server.child.try_wait().unwrap().is_some_and(|ended| ended.code() == Some(127)) {
                eprintln!("skipped: moto_server is on the PATH, and not installed");
                return None;
            }
            assert!(began.elapsed() < PATIENCE, "the server did not start");
            std::thread::sleep(Duration::from_millis(100));
        }
        Some(server)
    }

    /// One request without a body, which the server does not want signed.
    fn ask(&self, request: &str) -> String {
        use std::io::{Read, Write};
        let Ok(mut stream) = std::net::TcpStream::connect(&self.address) else { return String::new() };
        let text =
            format!("{request}\r\nHost: {}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", self.address);
        let mut answer = Vec::new();
        let _ = stream.write_all(text.as_bytes()).and_then(|()| stream.read_to_end(&mut answer));
        String::from_utf8_lossy(&answer).into_owned()
    }

    fn url(&self) -> String {
        format!("s3://bucket/app?endpoint=http://{}&region=us-east-1", self.address)
    }
}

impl Drop for S3 {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A file with credentials, which is named by each command.
fn keys(case: &Case) {
    let keys = case.path().join("keys");
    fs::write(&keys, "AWS_ACCESS_KEY_ID=hush-key\nAWS_SECRET_ACCESS_KEY=hush-secret\n").unwrap();
    fs::set_permissions(&keys, fs::Permissions::from_mode(0o600)).unwrap();
}

#[test]
fn a_bucket_is_a_place_and_its_secrets_are_told_to_nobody() {
    let Some(server) = S3::start() else { return };
    let case = Case::new(SCHEMA);
    keys(&case);
    let url = server.url();
    let add = case.ship(&["add", "a.db", &url, "--credentials", "keys"]).output().unwrap();
    assert!(add.status.success(), "{}", stderr_of(&add));
    for count in 1..4 {
        case.database().execute_batch(CHANGE).unwrap();
        let looked = case.ship(&["run", "--once"]).output().unwrap();
        assert!(looked.status.success(), "{}", stderr_of(&looked));
        succeed(case.path(), &["restore", &url, "-o", "restored.db", "--force", "--credentials", "keys"]);
        assert_eq!(counted(&case.path().join("restored.db")), count);
    }
    succeed(case.path(), &["ship", "compact", &url, "--credentials", "keys"]);
    succeed(case.path(), &["restore", &url, "-o", "restored.db", "--force", "--credentials", "keys"]);
    assert_eq!(counted(&case.path().join("restored.db")), 3);
    let jobs = case.path().join("jobs");
    let told = [
        case.ship(&["status", "--json"]).output().unwrap().stdout,
        fs::read(jobs.join("ship.toml")).unwrap(),
    ];
    assert!(told.iter().all(|text| !String::from_utf8_lossy(text).contains("hush")));
    drop(server);
    case.database().execute_batch(CHANGE).unwrap();
    let away = case.ship(&["run", "--once"]).output().unwrap();
    let told = stderr_of(&away);
    assert!(!away.status.success() && told.contains("cannot be reached") && !told.contains("hush"), "{told}");
}

#[test]
fn a_bucket_has_one_shipper_and_one_of_two_is_told_so() {
    let Some(server) = S3::start() else { return };
    let case = Case::new(SCHEMA);
    keys(&case);
    let url = server.url();
    assert!(case.ship(&["add", "a.db", &url, "--credentials", "keys"]).output().unwrap().status.success());
    let look = |jobs: &str| run(case.path(), &["ship", "--directory", jobs, "run", "--once"]);
    assert!(look("jobs").status.success());
    let second =
        run(case.path(), &["ship", "--directory", "others", "add", "a.db", &url, "--credentials", "keys"]);
    assert!(!second.status.success() && stderr_of(&second).contains("--take-over"), "{}", stderr_of(&second));
    // Copies of one machine, at the same moment: of each number there is one file, and somebody stops.
    let copied = Command::new("cp").args(["-r", "jobs", "clone"]).current_dir(case.path()).status().unwrap();
    assert!(copied.success());
    let serve = |jobs: &str| {
        let arguments = ["ship", "--directory", jobs, "run"];
        let mut command = crate::support::litefoot(case.path(), &arguments);
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let mut both = ["jobs", "clone"].map(serve);
    let began = Instant::now();
    let stopped = loop {
        assert!(began.elapsed() < PATIENCE, "both of two shippers go on");
        case.database().execute_batch(CHANGE).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        if let Some(at) = both.iter_mut().position(|child| child.try_wait().unwrap().is_some()) {
            break at;
        }
    };
    let [first, clone] = both;
    let (ended, goes_on) = if stopped == 0 { (first, clone) } else { (clone, first) };
    let ended = ended.wait_with_output().unwrap();
    assert!(
        !ended.status.success() && stderr_of(&ended).contains("one place is for one"),
        "{}",
        stderr_of(&ended)
    );
    assert!(Service(goes_on).terminate().success());
    succeed(case.path(), &["restore", &url, "-o", "restored.db", "--credentials", "keys"]);
    assert_eq!(counted(&case.path().join("restored.db")), number(&case.database(), "SELECT a FROM count"));
}

#[test]
fn litestream_and_litefoot_restore_each_other_from_a_bucket() {
    let Some(litestream) = litestream() else { return };
    let Some(server) = S3::start() else { return };
    let case = Case::new(&format!("PRAGMA journal_mode=wal; {SCHEMA}"));
    keys(&case);
    let theirs = |arguments: &[&str]| {
        let mut command = Command::new(&litestream);
        command.env("AWS_ACCESS_KEY_ID", "a").env("AWS_SECRET_ACCESS_KEY", "b").env_remove("AWS_CA_BUNDLE");
        let output = command.args(arguments).current_dir(case.path()).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", stderr_of(&output));
    };
    let url = server.url();
    assert!(case.ship(&["add", "a.db", &url, "--credentials", "keys"]).output().unwrap().status.success());
    let of_litestream = url.replace("/app?", "/theirs?");
    for count in 1..6 {
        case.database().execute_batch(CHANGE).unwrap();
        let looked = case.ship(&["run", "--once"]).output().unwrap();
        assert!(looked.status.success(), "{}", stderr_of(&looked));
        if count == 3 {
            succeed(case.path(), &["ship", "compact", &url, "--credentials", "keys"]);
        }
        theirs(&["replicate", "-once", "a.db", &of_litestream]);
        for (place, name) in [(&url, "of_litefoot"), (&of_litestream, "of_litestream")] {
            let (one, two) = (format!("{name}-1.db"), format!("{name}-2.db"));
            let [one_path, two_path] = [&one, &two].map(|name| case.path().join(name));
            let _ = (fs::remove_file(&one_path), fs::remove_file(&two_path));
            theirs(&["restore", "-o", &one, place]);
            succeed(case.path(), &["restore", place, "-o", &two, "--credentials", "keys"]);
            assert_eq!(counted(&one_path), count, "{place}");
            assert!(fs::read(&one_path).unwrap() == fs::read(&two_path).unwrap(), "{place}: byte for byte");
        }
    }
}

/// What becomes of requests.
#[derive(Clone, Copy)]
enum Line {
    Good,
    /// This status and body, and the end.
    Answer(&'static str, &'static str),
    /// No answer.
    Silent,
    /// A tenth of a second later.
    Slow,
    /// The request arrives, and its answer does not.
    Deaf,
}

/// A line to a server that breaks when it is told to.
struct Breaking {
    port: u16,
    line: Arc<Mutex<Line>>,
}

impl Breaking {
    fn to(server: &S3) -> Breaking {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let line = Arc::new(Mutex::new(Line::Good));
        let (address, told) = (server.address.clone(), line.clone());
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (address, told) = (address.clone(), told.clone());
                std::thread::spawn(move || pass(client, &address, &told));
            }
        });
        Breaking { port, line }
    }

    fn set(&self, line: Line) {
        *self.line.lock().unwrap() = line;
    }
}

fn pass(mut client: TcpStream, address: &str, line: &Mutex<Line>) {
    let mut server = TcpStream::connect(address).unwrap();
    let (mut answers, mut back) = (server.try_clone().unwrap(), client.try_clone().unwrap());
    let lost = Arc::new(Mutex::new(false));
    let is_lost = lost.clone();
    std::thread::spawn(move || {
        let mut bytes = [0; 16 << 10];
        while let Ok(read @ 1..) = answers.read(&mut bytes) {
            if *is_lost.lock().unwrap() || back.write_all(&bytes[..read]).is_err() {
                break;
            }
        }
        let _ = back.shutdown(Shutdown::Both);
    });
    let mut bytes = [0; 16 << 10];
    while let Ok(read @ 1..) = client.read(&mut bytes) {
        let now = *line.lock().unwrap();
        match now {
            Line::Good => {}
            Line::Slow => std::thread::sleep(Duration::from_millis(100)),
            Line::Deaf => *lost.lock().unwrap() = true,
            Line::Silent => continue,
            Line::Answer(status, body) => {
                let length = body.len();
                let answer = format!(
                    "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
                );
                let _ = client.write_all(answer.as_bytes());
                break;
            }
        }
        if server.write_all(&bytes[..read]).is_err() {
            break;
        }
    }
    let _ = (client.shutdown(Shutdown::Both), server.shutdown(Shutdown::Both));
}

const BROKEN: Line = Line::Answer("500 Internal Server Error", "oops");
const BUSY: Line =
    Line::Answer("503 Slow Down", "<Error><Code>SlowDown</Code><Message>Ask less.</Message></Error>");
const FORBIDDEN: Line = Line::Answer(
    "403 Forbidden",
    "<Error><Code>SignatureDoesNotMatch</Code><Message>No\nmatch.</Message><AWSAccessKeyId>hush</AWSAccessKeyId></Error>",
);

#[test]
fn a_server_that_fails_is_a_clear_line_and_the_application_goes_on() {
    let Some(server) = S3::start() else { return };
    let case = Case::new(&format!("PRAGMA journal_mode=wal; {SCHEMA}"));
    keys(&case);
    let breaking = Breaking::to(&server);
    let url = format!("s3://bucket/app?endpoint=http://127.0.0.1:{}&region=us-east-1", breaking.port);
    assert!(case.ship(&["add", "a.db", &url, "--credentials", "keys"]).output().unwrap().status.success());
    let mut expected = 0;
    let files = || server.ask("GET /bucket?list-type=2&prefix=app/0000/ HTTP/1.1").matches("<Key>").count();
    for (line, why) in [
        (BROKEN, "500"),
        (BUSY, "SlowDown: Ask less."),
        (FORBIDDEN, "SignatureDoesNotMatch: No match."),
        (Line::Silent, "cannot be reached"),
        (Line::Deaf, "cannot be reached"),
    ] {
        breaking.set(line);
        // The application does not hear of it.
        case.database().execute_batch(CHANGE).unwrap();
        let mut look = case.ship(&["run", "--once"]);
        let output = look.env("AWS_READ_TIMEOUT", "1s").env("AWS_TIMEOUT", "2s").output().unwrap();
        let told = stderr_of(&output);
        assert!(!output.status.success() && told.contains(why) && !told.contains("hush"), "{why}: {told}");
        assert!(told.lines().count() < 6 && told.len() < 1500, "{told}");
        assert_eq!(files(), expected, "{why}: nothing arrived");
        breaking.set(Line::Slow);
        let looked = case.ship(&["run", "--once"]).output().unwrap();
        assert!(looked.status.success(), "{why}: {}", stderr_of(&looked));
        expected += 1;
        assert_eq!(files(), expected, "{why}: it arrived once");
    }
    breaking.set(Line::Good);
    succeed(case.path(), &["restore", &url, "-o", "restored.db", "--credentials", "keys"]);
    assert_eq!(counted(&case.path().join("restored.db")), 5);
}

#[test]
fn a_service_waits_for_a_server_that_is_away_and_tells_no_secret() {
    let Some(server) = S3::start() else { return };
    let case = Case::new(&format!("PRAGMA journal_mode=wal; {SCHEMA}"));
    keys(&case);
    let breaking = Breaking::to(&server);
    let url = format!("s3://bucket/app?endpoint=http://127.0.0.1:{}&region=us-east-1", breaking.port);
    let add =
        case.ship(&["add", "a.db", &url, "--credentials", "keys", "--interval", "100ms"]).output().unwrap();
    assert!(add.status.success(), "{}", stderr_of(&add));
    let log = fs::File::create(case.path().join("log")).unwrap();
    let service = Service(case.ship(&["run"]).stdout(Stdio::null()).stderr(log).spawn().unwrap());
    let status = || String::from_utf8(case.ship(&["status", "--json"]).output().unwrap().stdout).unwrap();
    case.wait_for("the first delivery", || status().contains("\"sequence\": 1"));
    breaking.set(BROKEN);
    case.database().execute_batch(CHANGE).unwrap();
    case.wait_for("the failure", || status().contains("\"state\": \"retrying\""));
    for _ in 0..20 {
        case.database().execute_batch(CHANGE).unwrap();
    }
    let command = fs::read(format!("/proc/{}/cmdline", service.0.id())).unwrap();
    let told = [status().into_bytes(), command, fs::read(case.path().join("log")).unwrap()];
    assert!(told.iter().all(|text| !String::from_utf8_lossy(text).contains("hush")));
    breaking.set(Line::Good);
    case.wait_for("the next delivery", || status().contains("\"state\": \"current\""));
    assert!(service.terminate().success());
    succeed(case.path(), &["restore", &url, "-o", "restored.db", "--credentials", "keys"]);
    assert_eq!(counted(&case.path().join("restored.db")), 21);
}

#[test]
fn what_is_wrong_with_a_bucket_is_a_clear_line() {
    let Some(server) = S3::start() else { return };
    let case = Case::new(SCHEMA);
    keys(&case);
    let nowhere = "s3://bucket/app?endpoint=http://127.0.0.1:1&region=us-east-1";
    let missing = server.url().replace("//bucket/", "//none/");
    for (url, why) in [
        (nowhere, "cannot be reached"),
        (missing.as_str(), "make it first"),
        ("s3://bucket/app?aws_secret_access_key=hush", "no option"),
        ("s3://hush-key:hush-secret@bucket/app", "password"),
        ("s3://bucket", "name a folder"),
        ("gs://", "gs://"),
    ] {
        let refused = case.ship(&["add", "a.db", url, "--credentials", "keys"]).output().unwrap();
        let told = stderr_of(&refused);
        assert!(!refused.status.success() && told.contains(why) && !told.contains("hush"), "{url}: {told}");
    }
    let nothing = run(case.path(), &["restore", &server.url(), "-o", "x.db", "--credentials", "keys"]);
    assert!(stderr_of(&nothing).contains("no backup"), "{}", stderr_of(&nothing));
    fs::set_permissions(case.path().join("keys"), PermissionsExt::from_mode(0o644)).unwrap();
    let open = case.ship(&["add", "a.db", &server.url(), "--credentials", "keys"]).output().unwrap();
    assert!(stderr_of(&open).contains("chmod 600"), "{}", stderr_of(&open));
}
