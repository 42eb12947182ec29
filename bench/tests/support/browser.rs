//! A page in a real browser without a window.
//!
//! A server on the loopback device hands out the page and, around it, a page that shows it in a frame of a given width,
//! looks at it and sends back what it has seen. So one test serves all browsers, and whatever the page
//! asks for that it does not carry with it is noticed.

#![allow(dead_code, clippy::unwrap_used)]

use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

/// Looks at the page in the frame; what it finds is an object.
const LOOK: &str = include_str!("look.js");
const PATIENCE: Duration = Duration::from_secs(100);

/// The browser's findings.
pub struct Seen {
    /// The findings of `look.js`, for each width.
    pub widths: Vec<Value>,
    /// Paths that were asked for and that nobody offers.
    pub foreign: Vec<String>,
}

/// The first browser on the PATH.
pub fn find() -> Option<PathBuf> {
    let names =
        ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "firefox", "firefox-esr"];
    let path = std::env::var_os("PATH")?;
    names
        .iter()
        .flat_map(|name| std::env::split_paths(&path).map(|place| place.join(name)).collect::<Vec<_>>())
        .find(|candidate| candidate.is_file())
}

/// Kills the browser when the test is over.
struct Browser(Child);

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Shows the page at these widths.
pub fn look(browser: &Path, page: &str, widths: &[u32], scratch: &Path) -> Seen {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/", listener.local_addr().unwrap());
    let outer = format!(
        "<!DOCTYPE html><meta charset=utf-8><link rel=icon href=data:,><body style=margin:0><script>const widths = {widths:?};\n{LOOK}</script>"
    );
    let (sender, seen) = channel();
    let page = page.to_owned();
    std::thread::spawn(move || serve(&listener, &outer, &page, &sender));
    let _browser = Browser(start(browser, &address, scratch));
    let mut foreign = Vec::new();
    loop {
        match seen.recv_timeout(PATIENCE) {
            Ok(Request::Result(text)) => {
                let widths = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
                return Seen { widths, foreign };
            }
            Ok(Request::Foreign(path)) => foreign.push(path),
            Err(_) => panic!("{} never said what it saw", browser.display()),
        }
    }
}

fn start(browser: &Path, address: &str, scratch: &Path) -> Child {
    let mut command = Command::new(browser);
    let profile = scratch.join("profile");
    std::fs::create_dir_all(&profile).unwrap();
    if browser.file_name().unwrap().to_string_lossy().starts_with("firefox") {
        command.args(["--headless", "--no-remote", "--profile"]).arg(&profile).arg(address);
    } else {
        command.args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--disable-extensions",
        ]);
        // Without these a browser stays alive only as long as it takes to load.
        command.args([
            "--remote-debugging-port=0",
            "--disable-background-networking",
            "--disable-dev-shm-usage",
        ]);
        command.arg(format!("--user-data-dir={}", profile.display())).arg(address);
    }
    command
        .env("HOME", scratch)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

enum Request {
    Result(String),
    Foreign(String),
}

fn serve(listener: &TcpListener, outer: &str, page: &str, sender: &Sender<Request>) {
    for stream in listener.incoming().flatten() {
        let (outer, page, sender) = (outer.to_owned(), page.to_owned(), sender.clone());
        // Browsers open connections that they may use later: none may keep others waiting.
        std::thread::spawn(move || answer(stream, &outer, &page, &sender));
    }
}

fn answer(mut stream: TcpStream, outer: &str, page: &str, sender: &Sender<Request>) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let path = line.split(' ').nth(1)?.to_owned();
    let mut length = 0;
    loop {
        let mut header = String::new();
        if reader.read_line(&mut header).ok()? == 0 || header == "\r\n" {
            break;
        }
        if let Some(value) = header.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    let body = match path.as_str() {
        "/" => outer,
        "/report.html" => page,
        "/seen" => {
            let mut text = vec![0; length];
            reader.read_exact(&mut text).ok()?;
            sender.send(Request::Result(String::from_utf8_lossy(&text).into_owned())).ok()?;
            ""
        }
        _ => {
            sender.send(Request::Foreign(path)).ok()?;
            ""
        }
    };
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).ok()?;
    stream.write_all(body.as_bytes()).ok()
}
