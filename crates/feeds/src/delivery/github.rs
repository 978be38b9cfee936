//! What is special about GitHub's feed: "X started following Y" links to Y, whom the reader knows. The news is X.

use url::Url;

/// Longest name of an account on GitHub, with some room.
const MAX_NAME: usize = 45;

/// The profile of the new follower, if the title says that there is one.
pub fn follower(title: &str, link: &str) -> Option<String> {
    let (name, _) = title.split_once(" started following ")?;
    let is_name = !name.is_empty()
        && name.len() <= MAX_NAME
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
    if !is_name {
        return None;
    }
    // The profile is on the site of the entry's own link, which may be a GitHub Enterprise.
    let site = Url::parse(link).ok().and_then(|link| link.join("/").ok());
    let site = site.map_or_else(|| "https://github.com/".to_owned(), String::from);
    Some(format!("{site}{name}"))
}

#[cfg(test)]
mod tests {
    use super::follower;

    #[test]
    fn a_new_follower_is_linked_instead_of_the_followed() {
        let link = follower("alice started following masutaka", "https://github.com/masutaka");
        assert_eq!(link.as_deref(), Some("https://github.com/alice"));
        assert_eq!(follower("alice started following masutaka", "").as_deref(), Some("https://github.com/alice"));
    }

    #[test]
    fn other_titles_keep_their_link() {
        assert_eq!(follower("alice starred masutaka/repo", "https://github.com/masutaka/repo"), None);
        assert_eq!(follower("a b/../c started following d", "https://github.com/d"), None);
    }
}
