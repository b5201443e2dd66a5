//! Texts of many lengths, so that concurrent streams say different things and end at different times.

/// Two dozen sentences of 12 to 190 characters.
pub(super) const SENTENCES: [&str; 24] = [
    "Good morning.",
    "The kettle is already on, so please sit down and tell me about your journey.",
    "Where did you put the blue folder?",
    "A small boat drifted past the lighthouse while the gulls quarrelled over a crust of bread.",
    "Yes, of course.",
    "Our train leaves from platform nine at a quarter past seven, but it is often a few minutes late in winter.",
    "She folded the map, looked up at the hills, and decided to take the longer road along the river.",
    "Thank you for calling; someone will be with you shortly.",
    "When the rain stopped, the whole street smelled of wet stone, fresh bread and lilac, and for a moment nobody \
     spoke, because there was nothing that anyone wanted to add.",
    "Turn left at the old mill.",
    "I have read your letter twice, and I still do not know whether you are joking.",
    "The museum opens at ten, the garden at eight, and the little cafe whenever its owner wakes up.",
    "Nothing to worry about.",
    "In the back room an old clock ticked, patient and slightly wrong, as it had for fifty years.",
    "Could you speak a little more slowly, please?",
    "They planted an orchard of apples, pears and plums behind the school, and every autumn the children pressed \
     enough juice for the entire village.",
    "Your order has been shipped and should arrive on Thursday afternoon.",
    "The answer, as so often, was hidden in plain sight.",
    "He tuned the radio until a faint voice came through the noise, reading the weather for ships at sea.",
    "Water the ferns twice a week, keep the cactus dry, and never, under any circumstances, talk to the ivy about \
     moving to a larger pot.",
    "Let us try that again.",
    "From the top of the tower you can see three rivers, two bridges and, on a clear day, the snow on the mountains.",
    "The meeting has been moved to the large room upstairs.",
    "Sleep well, and do not forget to close the window if the wind comes up.",
];
