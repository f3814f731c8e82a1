//! ELF headers, sections, segments and notes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use whoseenv::binary::read::ReadAt;
use whoseenv::binary::{elf, lists, payload};

fuzz_target!(|bytes: &[u8]| {
    // Most of what begins otherwise is refused at once.
    let mut file = b"\x7fELF\x02\x01".to_vec();
    file.extend_from_slice(bytes);
    for section in elf::table(&file).expect("memory can be read").unwrap_or_default() {
        assert!(section.range.end <= file.length());
    }
    for note in elf::notes(&file).expect("memory can be read") {
        assert!(note.range.start <= note.range.end && note.range.end <= file.length());
    }
    let _ = elf::facts(&file);
    if let Some(found) = payload::payload(&file).expect("memory can be read") {
        assert!(found.offset + found.bytes <= file.length());
    }
    let _ = lists::holding(&file, &["PATH"]);
    let _ = elf::facts(&bytes.to_vec());
});
