//! Files that lie, change, have no end or are none: a clear error or a bounded answer, and never a signal.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use super::made::bundle;
use crate::run::{Ran, Sleeper, ran, run, whoseenv, write};
use crate::world::peers;

const COMMANDS: [&str; 3] = ["scan", "ops", "identify"];

fn ask(command: &str, file: &Path) -> Ran {
    ran(whoseenv(&["binary", command]).arg(file))
}

#[test]
fn what_is_no_regular_file_is_refused_at_once_with_a_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let fifo = dir.path().join("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
    let start = Instant::now();
    for command in COMMANDS {
        for (path, what) in [
            (dir.path(), "a directory"),
            (&fifo, "a FIFO"),
            (Path::new("/dev/zero"), "a device"),
            (Path::new("/proc/self/maps"), "a file that the kernel makes"),
        ] {
            let ran = ask(command, path);
            assert_eq!(ran.code, 2, "{}", ran.stderr);
            assert!(ran.stderr.contains(&format!("it is {what}, not a regular file")), "{}", ran.stderr);
            assert!(ran.stderr.contains("pid:N"), "{}", ran.stderr);
        }
        assert_eq!(ask(command, &dir.path().join("nothing")).code, 3);
        assert_eq!(ask(command, Path::new("")).code, 2);
        assert_eq!(ask(command, Path::new("/proc/self/mem")).code, 2);
    }
    assert!(start.elapsed() < Duration::from_secs(20));
}

#[test]
fn a_stream_without_an_end_is_cut_off() {
    let dir = tempfile::tempdir().unwrap();
    let start = Instant::now();
    let zero = File::open("/dev/zero").unwrap();
    let ran = ran(whoseenv(&["binary", "scan", "-", "-e", "x"]).stdin(zero).env("TMPDIR", dir.path()));
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert!(ran.stderr.contains("more than 1073741824 bytes came"), "{}", ran.stderr);
    assert!(start.elapsed() < Duration::from_secs(120));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_pipe_and_a_redirected_file_are_read_alike() {
    let dir = tempfile::tempdir().unwrap();
    let file = write(dir.path(), "zoo", &bundle("--user-agent=opencode/1.0.0 --", &[r#"q.get("zoo.list","/zoo",{success:x})"#]));
    let by_path = run(&["binary", "ops", file.to_str().unwrap(), "--json"]).json();
    let redirected = ran(whoseenv(&["binary", "ops", "-", "--json"]).stdin(File::open(&file).unwrap())).json();
    let mut cat = Command::new("cat").arg(&file).stdout(Stdio::piped()).spawn().unwrap();
    let piped = ran(whoseenv(&["binary", "ops", "-", "--json"]).stdin(cat.stdout.take().unwrap())).json();
    cat.wait().unwrap();
    for other in [redirected, piped] {
        assert_eq!(other["data"]["operations"], by_path["data"]["operations"]);
        assert_eq!((&other["data"]["file"]["path"], &other["data"]["file"]["bytes"]), (&json!("-"), &by_path["data"]["file"]["bytes"]));
    }
}

#[test]
fn five_gigabytes_of_nothing_take_bounded_time_and_memory() {
    let dir = tempfile::tempdir().unwrap();
    let file = write(dir.path(), "sparse", &bundle("--", &["x"])[..4096]);
    File::options().write(true).open(&file).unwrap().set_len(5 << 30).unwrap();
    for arguments in [vec!["scan", "-e", "session", "-e", "OPENCODE", "--no-hash"], vec!["ops"], vec!["identify"]] {
        let start = Instant::now();
        let ran = ran(whoseenv(&["binary"]).args(&arguments).arg(&file));
        assert!([0, 5].contains(&ran.code), "{arguments:?}: {}", ran.stderr);
        assert!(start.elapsed() < Duration::from_secs(90), "{arguments:?}: {:?}", start.elapsed());
    }
}

#[test]
fn a_file_that_shrinks_or_changes_while_it_is_read_is_undetermined() {
    let dir = tempfile::tempdir().unwrap();
    for shrinks in [true, false] {
        let file = write(dir.path(), "changing", b"\x7fELF");
        File::options().write(true).open(&file).unwrap().set_len(4 << 30).unwrap();
        let mut child = whoseenv(&["binary", "scan", "-e", "session", "--no-hash", "--json"])
            .arg(&file)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // Open, so that its length is known, and far from read.
        let open = || {
            let fds = fs::read_dir(format!("/proc/{}/fd", child.id())).into_iter().flatten().flatten();
            fds.filter_map(|fd| fs::read_link(fd.path()).ok()).any(|target| target == file)
        };
        let until = Instant::now() + Duration::from_secs(30);
        while !open() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(20));
        if shrinks {
            File::options().write(true).open(&file).unwrap().set_len(1 << 20).unwrap();
        } else {
            std::os::unix::fs::FileExt::write_at(&File::options().write(true).open(&file).unwrap(), b"session", 8).unwrap();
        }
        let early = child.try_wait().unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(early.is_none(), "it was read before it could change");
        assert_eq!(output.status.code(), Some(5), "{:?}: {}", output.status, String::from_utf8_lossy(&output.stderr));
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(said.contains("changed while it was read") && said.contains("\"status\": \"undetermined\""), "{said}");
    }
}

#[test]
fn headers_and_trailers_that_lie_are_told_or_ignored() {
    let dir = tempfile::tempdir().unwrap();
    let whole = bundle("--user-agent=opencode/1.18.34 --", &["process.env.OPENCODE_PID", r#"q.get("zoo.list","/zoo",{success:x})"#]);
    let trailer = whole.len() - 16 - 32;
    let mut files: Vec<Vec<u8>> =
        [4096, 4100, whole.len() / 2, trailer, whole.len() - 20, whole.len() - 1, 63, 5, 0].map(|length| whole[..length].to_vec()).to_vec();
    // Numbers in the ELF header and in the trailer, each as large as can be.
    for at in [0x20usize, 0x28, trailer, trailer + 8, trailer + 12, trailer + 16] {
        let width = if at < trailer + 8 { 8 } else { 4 };
        for byte in [0xffu8, 0x7f] {
            let mut file = whole.clone();
            file[at..at + width].fill(byte);
            files.push(file);
        }
    }
    for (at, value) in [(0x36usize, 56u16), (0x38, 0xffff), (0x3a, 64), (0x3c, 0xffff), (0x3e, 0xffff)] {
        let mut file = whole.clone();
        file[0x36..0x40].copy_from_slice(&[56, 0, 9, 0, 64, 0, 9, 0, 8, 0]);
        file[at..at + 2].copy_from_slice(&value.to_le_bytes());
        files.push(file);
    }
    for (number, bytes) in files.iter().enumerate() {
        let file = write(dir.path(), "liar", bytes);
        for command in COMMANDS {
            let ran = ask(command, &file);
            assert!([0, 5].contains(&ran.code), "file {number}, {command}: {} {}", ran.code, ran.stderr);
        }
    }
    let doubt = run(&["binary", "scan", write(dir.path(), "liar", files.last().unwrap()).to_str().unwrap(), "-e", "x"]).stdout;
    assert!(doubt.contains("outside of the file"), "{doubt}");
}

/// 1.18.34 with the numbers before its trailer overwritten: what is in it is not denied, and nothing is asserted.
#[test]
fn a_bundle_whose_trailer_makes_no_sense_is_searched_whole_and_certain_of_nothing() {
    let program = need!(peers::opencode_v1());
    let dir = tempfile::tempdir().unwrap();
    let mut bytes = fs::read(&program).unwrap();
    let trailer = memchr::memmem::rfind(&bytes, b"\n---- Bun! ----\n").unwrap();
    bytes[trailer - 32..trailer].fill(0xff);
    let file = write(dir.path(), "opencode", &bytes);
    let ask = |command: &str| run(&["binary", command, file.to_str().unwrap(), "--json"]);
    let identified = ask("identify");
    let document = identified.json();
    assert_eq!((identified.code, &document["status"]), (5, &json!("undetermined")));
    assert!(document["notes"].to_string().contains("trailer makes no sense"), "{}", document["notes"]);
    // `grep -aoc /global/health` says 4.
    let health = document["data"]["features"].as_array().unwrap().iter().find(|one| one["id"] == "health.global").unwrap().clone();
    assert_eq!(health["present"], json!(true));
    let ops = ask("ops");
    assert_eq!(ops.code, 5);
    assert!(ops.json()["data"]["operations"].as_array().unwrap().len() >= 180);
    let scan = ask("scan").json();
    assert!(scan["data"]["file"]["payload"]["doubt"].as_str().unwrap().contains("makes no sense"), "{scan}");
    let diff = run(&["binary", "diff", file.to_str().unwrap(), program.to_str().unwrap(), "--json"]);
    let document = diff.json();
    assert_eq!((diff.code, &document["data"]["variables_went"], &document["data"]["features"]), (5, &json!([]), &json!([])), "{document}");
}

/// A table that names one of two modules and says that this is all.
#[test]
fn a_module_table_that_leaves_most_of_the_bundle_out_is_not_believed() {
    let dir = tempfile::tempdir().unwrap();
    let large = format!("{};\"/global/health\"", "x".repeat(1 << 20));
    let mut file = bundle("--user-agent=opencode/1.18.34 --", &["y", &large]);
    let table = file.len() - 16 - 32 + 12;
    file[table..table + 4].copy_from_slice(&52u32.to_le_bytes());
    let ran = run(&["binary", "identify", write(dir.path(), "liar", &file).to_str().unwrap(), "--json"]);
    assert_eq!(ran.code, 5);
    assert!(ran.json()["notes"].to_string().contains("trailer makes no sense"), "{}", ran.stdout);
}

#[test]
fn a_process_without_a_number_is_a_usage_error() {
    for word in ["pid:", "pid:abc", "pid:-1", "pid:99999999999"] {
        let ran = run(&["binary", "scan", word, "-e", "x"]);
        assert_eq!(ran.code, 2, "{word}: {}", ran.stderr);
        assert!(ran.stderr.contains("no number of a process"), "{}", ran.stderr);
    }
}

/// A module table whose sources begin one byte apart: as much code as the file is long, not its square.
#[test]
fn modules_that_overlap_are_read_once() {
    let dir = tempfile::tempdir().unwrap();
    let (code, modules) = (8usize << 20, 20_000usize);
    let mut body = vec![b'a'; code];
    body.extend(b"/$bunfs/root/a.js");
    let mut table = Vec::new();
    for at in 0..modules {
        for number in [code, 17, at, code - at] {
            table.extend((number as u32).to_le_bytes());
        }
        table.extend([0u8; 32]);
        table.extend([1, 1, 1, 0]);
    }
    let place = (body.len() as u32, table.len() as u32);
    body.extend(table);
    let said = (body.len() as u32, 2);
    body.extend(b"--\0");
    let bytes = body.len() as u64;
    body.extend(bytes.to_le_bytes());
    for number in [place.0, place.1, 0, said.0, said.1, 3] {
        body.extend(number.to_le_bytes());
    }
    body.extend(b"\n---- Bun! ----\n");
    let mut whole = bundle("--", &["x"])[..4096].to_vec();
    whole.extend(body);
    let file = write(dir.path(), "staggered", &whole);
    let start = Instant::now();
    for command in ["ops", "identify"] {
        assert_eq!(ask(command, &file).code, 5);
    }
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}

#[test]
fn a_program_that_was_removed_is_read_from_the_process_that_runs_it() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("sleeper");
    fs::copy("/bin/sleep", &program).unwrap();
    let sleeper = Sleeper::of(Command::new(&program).arg("600").stdin(Stdio::null()));
    fs::remove_file(&program).unwrap();
    let theirs = Command::new("sha256sum").arg("/bin/sleep").output().unwrap().stdout;
    let found = run(&["binary", "scan", &format!("pid:{}", sleeper.pid()), "-e", "sleep", "--json"]).json();
    let file = &found["data"]["file"];
    assert_eq!(file["sha256"].as_str().unwrap().as_bytes(), &theirs[..64]);
    assert_eq!((&file["deleted"], &file["path"]), (&json!(true), &json!(program.to_str().unwrap())));
    assert_eq!(run(&["binary", "scan", "pid:4194304"]).code, 3);
}

#[test]
fn an_agents_name_means_the_program_that_really_runs_and_several_are_listed() {
    let program = need!(peers::opencode_v1());
    let dir = tempfile::tempdir().unwrap();
    let start = |name: &str| {
        let home = dir.path().join(format!("home-{name}"));
        fs::create_dir(&home).unwrap();
        let copy = dir.path().join(name);
        fs::copy(&program, &copy).unwrap();
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).unwrap();
        let mut command = Command::new(&copy);
        command.args(["serve", "--port", "0"]).env_clear().env("HOME", &home).env("PATH", "/usr/bin:/bin").current_dir(&home);
        Sleeper::of(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()))
    };
    // Under names that are nobody's.
    let (one, two) = (start("notes"), start("diary"));
    let several = run(&["binary", "identify", "opencode"]);
    assert_eq!(several.code, 2, "{}", several.stderr);
    for sleeper in [&one, &two] {
        assert!(several.stderr.contains(&format!("pid:{} (", sleeper.pid())), "{}", several.stderr);
    }
    let found = run(&["binary", "identify", "opencode", "--pid", &two.pid(), "--json"]).json();
    assert_eq!(found["data"]["file"]["path"], json!(dir.path().join("diary").to_str().unwrap()));
    assert_eq!((&found["data"]["product"], &found["data"]["generation"]), (&json!("opencode"), &json!("v1")));
}

#[test]
fn strings_that_cannot_be_counted_are_usage_errors() {
    for string in ["", "a\nb"] {
        let ran = run(&["binary", "scan", "/bin/sleep", "-e", string]);
        assert_eq!(ran.code, 2, "{}", ran.stderr);
    }
    let dir = tempfile::tempdir().unwrap();
    let empty = write(dir.path(), "empty", b"\n\n");
    assert_eq!(run(&["binary", "scan", "/bin/sleep", "--patterns", empty.to_str().unwrap()]).code, 2);
}

#[test]
fn a_snapshot_says_that_it_holds_no_programs() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/demo");
    for target in ["opencode", "pid:1", "/bin/sleep"] {
        let ran = run(&["binary", "scan", target, "--from", fixtures.to_str().unwrap()]);
        assert_eq!(ran.code, 5, "{}", ran.stderr);
        assert!(ran.stderr.contains("a snapshot holds no programs"), "{}", ran.stderr);
    }
}
