//! Environment blocks and files of assignments: no byte is lost, and both ways of reading a block agree.
#![no_main]

use libfuzzer_sys::fuzz_target;
use whoseenv::host::{Environ, Stat};
use whoseenv::origin::birth;

fuzz_target!(|block: &[u8]| {
    let environ = Environ::parse(block);
    let bytes: usize = environ.entries.iter().map(|entry| entry.name.as_bytes().len() + entry.value.as_ref().map_or(0, |value| value.clear().map_or(0, <[u8]>::len) + 1)).sum();
    assert_eq!(bytes, block.split(|&byte| byte == 0).map(<[u8]>::len).sum::<usize>());

    let stat = Stat::parse(b"1 (x) S 0 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 1", 0).expect("a good line");
    let born = birth::from_raw(block, b"", &stat);
    assert_eq!(born.ssh_connection.as_deref(), environ.bytes("SSH_CONNECTION").filter(|value| !value.is_empty()).map(String::from_utf8_lossy).as_deref());
    assert_eq!(born.tmux.as_deref(), environ.bytes("TMUX").filter(|value| !value.is_empty()).map(String::from_utf8_lossy).as_deref());

    let _ = Environ::parse_file(block);
});
