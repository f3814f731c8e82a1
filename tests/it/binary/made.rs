//! Made-up program files, written by the published layout: an ELF header with nothing behind it, and a Bun trailer. Shares no
//! code with `src/`.

/// A Bun program with these JavaScript modules.
pub fn bundle(arguments: &str, modules: &[&str]) -> Vec<u8> {
    let mut file = vec![0u8; 4096];
    file[..6].copy_from_slice(b"\x7fELF\x02\x01");
    file[16] = 3;
    file[18] = 62;
    let (mut body, mut table) = (Vec::new(), Vec::new());
    let put = |body: &mut Vec<u8>, table: &mut Vec<u8>, text: &[u8]| {
        table.extend((body.len() as u32).to_le_bytes());
        table.extend((text.len() as u32).to_le_bytes());
        body.extend(text);
        body.push(0);
    };
    for (index, source) in modules.iter().enumerate() {
        put(&mut body, &mut table, format!("/$bunfs/root/m{index}.js").as_bytes());
        put(&mut body, &mut table, source.as_bytes());
        table.extend([0u8; 32]);
        // Latin-1, JavaScript, ES module, server side.
        table.extend([1, 1, 1, 0]);
    }
    let place = (body.len() as u32, table.len() as u32);
    body.extend(table);
    let said = (body.len() as u32, arguments.len() as u32);
    body.extend(arguments.as_bytes());
    body.push(0);
    let bytes = body.len() as u64;
    body.extend(bytes.to_le_bytes());
    for number in [place.0, place.1, 0, said.0, said.1, 3] {
        body.extend(number.to_le_bytes());
    }
    body.extend(b"\n---- Bun! ----\n");
    file.extend(body);
    file
}
