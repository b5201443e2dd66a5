//! Texts of many lengths, so that concurrent streams say different things and end at different times.

/// Two dozen sentences of 12 to 190 characters.
pub const SENTENCES: &[&str] = &[
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

/// Two dozen things to say in a conversation, from a greeting to a long question.
pub const PROMPTS: &[&str] = &[
    "Hello!",
    "What is seventeen plus twenty-five?",
    "Who are you?",
    "What is the capital of France?",
    "Please count from one to twenty.",
    "Which day comes after Wednesday?",
    "How do I make you speak into a file, and how do I choose another voice for it?",
    "Spell the word necessary.",
    "Good evening. I would like to know what you can do for me today.",
    "What is nine times eight?",
    "Repeat after me: the quick brown fox jumps over the lazy dog.",
    "Name the months of the year.",
    "Thank you.",
    "I have twelve apples, give away five and buy thirty more at the market on Saturday morning. How many apples do I \
     have then?",
    "How can I load a real model?",
    "What is the capital of Japan, and what is the capital of Italy?",
    "Subtract forty-four from one hundred.",
    "Why is there sometimes a gap in the audio?",
    "Tell me a joke.",
    "What are the days of the week?",
    "Which metric tells me how long callers wait for the first audio, and where do I find it?",
    "What is one hundred divided by four?",
    "Can you sing?",
    "Goodbye, and have a nice weekend.",
];
