//! A collector that wants certificates of devices, as processes. Its database is away: a device that hears of that was let in.

use super::{Case, SCHEMA};
use crate::support::{finish, litefoot, stderr_of};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

#[test]
fn a_collector_lets_in_devices_with_a_certificate() {
    use std::os::unix::fs::PermissionsExt;
    let case = Case::new(SCHEMA);
    let script = include_str!("../../../rowsink/tests/postgres/certificates.sh");
    let made = Command::new("sh").args(["-c", script]).current_dir(case.path()).output().unwrap();
    if !made.status.success() {
        println!("skipped: openssl: {}", stderr_of(&made));
        return;
    }
    let arguments = ["--certificate", "cert.pem", "--key", "key.pem", "--client-ca", "devices.pem"];
    let place = ["collect", "--to", "postgres://127.0.0.1:1/x", "--listen", "127.0.0.1:0"];
    let mut command = litefoot(case.path(), &[&place[..], &arguments].concat());
    command.env_remove("LITEFOOT_COLLECT_TOKEN").stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut collector = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(collector.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let (_, port) = line.trim().rsplit_once(':').unwrap();
    let url = format!("collect://localhost:{port}");
    let ship = |lines: &str, arguments: &[&str]| {
        let file = case.path().join("ship.env");
        std::fs::write(&file, format!("LITEFOOT_COLLECT_CA=ca.pem\n{lines}\n")).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        let output = case.ship(arguments).output().unwrap();
        (output.status.success(), stderr_of(&output))
    };
    let of = |name: &str| format!("LITEFOOT_COLLECT_CERTIFICATE={name}.pem\nLITEFOOT_COLLECT_KEY={name}.key");
    let token = "LITEFOOT_COLLECT_TOKEN=hush-hush-hush-hush-hush";
    let (added, told) = ship(&of("device"), &["add", "a.db", &url, "--credentials", "ship.env"]);
    assert!(added, "{told}");
    for (lines, why) in [
        (of("device"), "postgres://127.0.0.1:1/x"),
        (of("other"), "refuses the certificate of this device"),
        (token.to_owned(), "LITEFOOT_COLLECT_CERTIFICATE"),
        (of("none"), "none.pem"),
        ("LITEFOOT_COLLECT_KEY=device.key".to_owned(), "LITEFOOT_COLLECT_CERTIFICATE is not"),
    ] {
        let (_, told) = ship(&lines, &["run", "--once"]);
        assert!(told.contains(why) && !told.contains("hush"), "{lines}: {told}");
    }
    // SAFETY: the process is a child that was not waited for.
    unsafe { libc::kill(collector.id() as i32, libc::SIGTERM) };
    let ended = finish(collector);
    let told = stderr_of(&ended);
    assert!(ended.status.success() && told.contains("no certificate was shown"), "{told}");
}
