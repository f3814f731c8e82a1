//! Snapshot directories: a file of one is the fuzzer's, with and without a manifest that vouches for it.
#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use whoseenv::host::snapshot::{Captured, SCHEMA};
use whoseenv::host::{Host, View};

/// A snapshot that is whole.
const FILES: [(&str, &str); 4] = [
    ("machine.json", r#"{"machine": {"value": {"boot_id": "b", "hostname": "h", "kernel": "6.1", "os": "Linux", "taken_ms": 1, "uptime_ms": 1, "ticks_per_second": 100, "uid": 0, "caps": []}}}"#),
    ("processes/1.json", r#"{"stat": {"value": {"pid": 1, "comm": "init", "state": "S", "ppid": 0, "pgrp": 1, "session": 1, "tty_nr": 0, "kernel_thread": false, "start_ticks": 1, "euid": 0}}, "environ": {"value": {"entries": [{"name": "DISPLAY", "value": {"clear": ":0"}}], "overwritten": false}}, "cmdline": {"value": [{"clear": "init"}]}}"#),
    ("net/ours.json", r#"{"tcp": {"value": []}, "tcp6": {"unknown": {"reason": "absent"}}, "unix": {"value": []}}"#),
    ("paths/ours.json", r#"{"/run": {"value": {"kind": "directory", "mode": 493, "uid": 0, "bytes": 0, "inode": [1, 2], "modified_ms": 0, "changed_ms": 0}}}"#),
];

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn manifest(files: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let listed = files.iter().map(|(name, text)| {
        let facts: Map<String, Value> = serde_json::from_slice(text).unwrap_or_default();
        let facts: Map<String, Value> = facts.iter().map(|(key, fact)| (key.clone(), digest(fact.to_string().as_bytes()).into())).collect();
        ((*name).to_owned(), json!({ "sha256": digest(text), "facts": facts }))
    });
    json!({ "schema": SCHEMA, "tool": "0.0.0", "files": Map::from_iter(listed) }).to_string().into_bytes()
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&choice, bytes)) = bytes.split_first() else { return };
    let mut files: Vec<(&str, Vec<u8>)> = FILES.iter().map(|(name, text)| (*name, text.as_bytes().to_vec())).collect();
    let whole = manifest(&files);
    let at = usize::from(choice & 0x7f) % (files.len() + 1);
    let manifest = match files.get_mut(at) {
        None => bytes.to_vec(),
        Some((_, text)) => {
            *text = bytes.to_vec();
            // The high bit: the manifest is of the tampered file, so that its content is read.
            if choice & 0x80 == 0 { whole } else { manifest(&files) }
        }
    };
    static DIR: OnceLock<tempfile::TempDir> = OnceLock::new();
    let dir = DIR.get_or_init(|| tempfile::tempdir().expect("a directory can be made")).path();
    for (name, text) in &files {
        whoseenv_fuzz::write(&dir.join(name), text);
    }
    whoseenv_fuzz::write(&dir.join("manifest.json"), &manifest);

    let Ok(captured) = Captured::open(dir) else { return };
    let host = Host::captured(captured);
    for pid in host.pids().unwrap_or_default() {
        let process = host.process(pid);
        let _ = (process.stat(), process.environ(), process.cmdline(), process.exe(), process.cgroup(), process.fds(), process.view());
    }
    let _ = (host.net(View::OURS), host.path(View::OURS, b"/run"), host.users(), host.chain(1));
    let _ = (host.machine().age_ms(7), host.snapshot_faults());
});
