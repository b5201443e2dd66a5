//! The query of `/metrics`.

/// The values of `name[]` in the query of `/metrics`: the families that are asked for, none for all.
pub fn queried_names(query: &str) -> Vec<String> {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let named = pairs.filter(|(key, _)| decode(key) == "name[]");
    named
        .map(|(_, value)| decode(value))
        .filter(|name| !name.is_empty())
        .collect()
}

/// Percent-decoded. What is no valid escape stands for itself.
fn decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let escaped = (*byte == b'%').then(|| bytes.get(at + 1..at + 3)).flatten();
        let digits = escaped.and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(decoded) => {
                out.push(decoded);
                at += 3;
            }
            None => {
                out.push(if *byte == b'+' { b' ' } else { *byte });
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_in_either_spelling_and_more_than_once() {
        assert_eq!(
            queried_names("name[]=vllm:a&x=1&name%5B%5D=vllm%3Ab"),
            ["vllm:a", "vllm:b"]
        );
        assert_eq!(queried_names("name[]=&name=a&%"), Vec::<String>::new());
        assert_eq!(queried_names("name[]=50%25%"), ["50%%"]);
    }
}
