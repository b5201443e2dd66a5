"""The wordings of `dialogues.py`: the frames of its questions, and what comes around and into them.

[one|of|these] is chosen anew each time and may stand inside another one; {a} is a slot, which the question fills; a frame with * in front of it
is never trained on; @ is the phrase that is asked for. A grammar is {form: phrases}: a noun is "the sum of {a} and {b}", a verb "add {a} and {b}",
a clause "what {a} and {b} make", and ASKING has the sentences around them. Phrases of any other form are sentences already.
"""


# ------------------------------------------------------------------------------- wording
OPENERS = ["please ", "hey, ", "hi, ", "ok, ", "so, ", "um, ", "now ", "and ", "hello, ", "hello! ", "tell me, ", "please tell me: ", "quick question: ",
           "i have a question: ", "can you tell me: ", "do you know: ", "omni, ", "well, ", "another one: ", "good. ", "hmm, ", "er, ", "oh, ", "listen, ",
           "by the way, ", "one more question: ", "dear omni, ", "be so kind: ", "ok omni, ", "next: ", "alright, ", "thanks! ", "great, ", "and then: ",
           "let me ask you: ", "for my homework: "]
PRELUDES = ["[i have|i've got|here is|here comes|now|just|there is] [a|one more|another|one last] [|quick |small |simple |silly |little |strange ]question[.|:"
                "| for you.| for you:] ",
            "my [son|daughter|wife|husband|teacher|boss|mother|neighbour|colleague|nephew|friend|class|little sister|grandpa] "
                "[asks|wants to know|is asking|needs to know|keeps asking me|asked][:|,| this:] ",
            "for [a quiz|school|a crossword|my project|an exam|a bet|my notes|the record|a friend|my daughter|a test|fun][:|,] ",
            "[settle a bet|help me out|help me|answer me this|try this one|think about this|guess|here is one|quick|quickly|tell me this|let's see|question"
                "|next question|i wonder]: ",
            "[this is for school|i'm stuck with my homework|i am doing a quiz|i am bad at this|i should know this|i forgot this one|we were arguing about this"
                "|i can't work this out|i need your help|i am not sure about this|you might know this|maybe you can help me|something else|let us try something|i was "
                "just thinking|i am curious]. ",
            "[sorry to bother you|excuse me|pardon|good morning|good evening|good afternoon|hi there|hey there|hi omni|hello omni|hello again|right|okay then|say"
                "|look|now then|one thing|tell you what][,|.|!] ",
            "[just out of curiosity|out of interest|as far as you know|if i may ask|if you don't mind|honestly|once more|for once|to begin with|while i have you here], "]
CLOSERS = [" please", ", please", " thanks", ", thank you", ", omni", " now", " for me", ", if you can", ", if you don't mind", ", my friend", " then", ", ok",
           ", be so kind", " today", ", thanks a lot", ", would you", ", will you", ", if you would", ", when you get a chance", ", quickly", ", if you please",
           " right now", ", buddy", ", come on"]
TAGS = [", do you know", ", any idea", ", can you tell me", ", could you tell me", ", please", ", omni", " again", ", if you know", ", would you know", ", can you say",
        ", i wonder", ", please tell me", " exactly", ", by the way", ", do you think", ", any clue", " actually"]
AFTERWORDS = [" thanks.", " thank you.", " please.", " i forgot.", " i need it for [school|work|my homework|a quiz].", " my [son|daughter|teacher|friend] wants to know.",
              " i can't remember.", " please help.", " it's for a quiz.", " just curious.", " do you know?", " can you tell me?", " tell me please.", " any idea?",
              " i have no idea.", " i really need to know.", " no hurry.", " quick!"]
BEFORE_A_GREETING = ["hey, ", "hi, ", "ok, ", "so, ", "um, ", "and ", "hello, ", "omni, ", "well, ", "oh, ", "dear omni, ", "ok omni, ", "alright, ", "hey omni, ",
                     "oh well, ", "hi omni, ", "ah, "]
AFTER_A_GREETING = [", omni", ", my friend", " then", ", ok", " now", ", dear omni", ", buddy", ", old friend", ", little model", " again", ", assistant"]
SHORTER = [("what is", "what's"), ("what is", "whats"), ("how is", "how's"), ("which is", "which's"), ("do not", "don't"), ("i am", "i'm"), ("what are", "what're"),
           ("can you", "could you"), ("please", "kindly"), ("do you know", "d'you know"), ("how do i", "how'd i"), ("today is", "today's"), ("it is", "it's"),
           ("tell me", "just tell me"), ("what is", "what would be"), ("which", "say, which"), ("i would", "i'd"), ("who is", "who's"), ("where is", "where's"),
           ("you", "u"), ("what is", "wat is"), ("going to", "gonna"), ("want to", "wanna"), ("please", "pls"), ("what", "what exactly"), ("and", "&"),
           ("calculate", "work out"), ("how many", "what number of")]
# How the phrases of a grammar are asked for.
ASKING = {
    "noun": ["what is @?", "what's @?", "@?", "@, please.", "[tell|give|get|find] me @[| please| now| quickly].", "i [need|want|would like|'d like] @[| please| now].",
             "say @.", "i [need|want|would like|have] to know @.",
             "[do you know|can you give me|can you tell me|could i have|may i have|have you got|could you tell me|would you know] @?",
             "@, [do you know it|what is it|what would that be|can you tell me|any idea|what is that|could you tell me]?", "[any idea|any clue] what @ is?", "@ is what?",
             "@: what is it?", "what [would|might|could|will] @ be?", "i am [looking for|after|trying to find|curious about|interested in|asking for|searching for] @.",
             "[help me with|let me know|remind me of|i forgot|i can't remember|i wonder about] @.", "what do you [say|give|have|get] for @?",
             "@ is what i [need|am after|want to know].", "[what|how] about @?", "my question is about @.", "[would|do] you happen to know @?",
             "[name|state|let me have|let me hear|write down|show me] @.", "can you [find|name|come up with|figure out] @?"],
    "verb": ["@.", "@ please.", "please @.", "[can|could|will|would] you [|please |just |quickly |kindly |maybe ]@[| for me| please| now]?",
             "@, [would|will|could|can|won't] you?", "@ for me.", "i [want|need|would like|'d like|am asking|expect] you to @.",
             "[be so kind and|be nice and|go ahead and|try to|quickly|just|you may now|you should|you must|do] @.", "are you able to @?",
             "[is it possible|would it be possible] for you to @?", "would you be able to @?", "@, if you [can|would|could|please|don't mind|have time].",
             "[your task is to|my request:|your job:|my wish:|next task:|what i want:|here is what to do:] @.", "how about you @?", "why don't you @?",
             "@ when you [have a moment|get a chance|can].", "i bet you can @.", "do you think you [can|could] @?", "it would be [nice|great|good|kind] if you could @.",
             "may i ask you to @?", "[let me see|i'd love to see|watch] you @.", "you can @, can't you?", "do you know how to @?", "help me [|to ]@.",
             "i [need|want|have] to @.", "let's @.", "is there a chance you could @?"],
    "clause": ["[tell me|let me know|say|just say|please tell me|remind me|find out|figure out|explain to me] @.",
               "[do you know|can you tell me|could you tell me|can you say|would you know|any idea|any clue|can you find out] @?",
               "[i wonder|i am wondering|i'd like to know|i want to know|i need to know|i would love to know|i have to know|i was wondering|i'd be glad to know"
                   "|i forgot|i can't remember|i am not sure|i don't know] @.",
               "@, [do you know|can you tell me|that is what i want to know|that is my question|any idea]?",
               "my [son|daughter|teacher|friend|wife|boss|neighbour|class] [asks|wants to know|would like to know|forgot] @.",
               "[we are wondering|someone asked me|people ask me|they asked me|the quiz asks|the question is|my question is|i have been asked|nobody here knows"
                   "|i always forget] @.",
               "[would|do] you happen to know @?", "[would you tell me|will you tell me|could you let me know|may i ask|may i know|can i ask] @?",
               "it would help to know @."],
}
# Those that do not go with "give me the sum of {a} and {b}".
NOT_FOR_ME = ["@ for me.", "help me [|to ]@.", "i [need|want|have] to @.", "let's @."]
HOW_TO = ["how to @?", "i want to @.", "i'd like to @. how?", "what is the way to @?", "is there a way to @?", "show me how to @.", "what must i do to @?", "steps to @?",
          "i am trying to @.", "how does one @?", "tell me how to @.", "do you know how to @?", "i don't know how to @.", "what do i need to @?",
          "how is it possible to @?", "i need to @. what do i do?", "explain how to @.", "what would i have to do to @?"]
THAT_DOES = ["the {0} that {1}?", "is there a {0} that {1}?", "what's the {0} that {1}?", "i need the {0} that {1}.", "i'm looking for the {0} that {1}.",
             "name the {0} that {1}.", "what is the name of the {0} that {1}?", "tell me the {0} that {1}.", "there must be a {0} that {1}. which one?",
             "do you know a {0} that {1}?"]
# What people say in place of each other at the beginning of a question
SAME = [["how do i ", "how can i ", "how would i ", "how to ", "how should i ", "how could i "],
        ["which flag ", "what flag ", "which option ", "what option ", "which parameter "], ["which command ", "what command ", "which program ", "what "],
        ["which metric ", "what metric ", "which figure ", "which counter "], ["which part ", "what part ", "which component "], ["which stage ", "what stage "],
        ["how long ", "for how long "], ["what is the ", "what's the ", "tell me the ", "which is the ", "say the "],
        ["which target ", "what target ", "which make target "], ["is there a ", "do you have a ", "is there maybe a "], ["can omni ", "could omni ", "is omni able to "],
        ["which voices ", "what voices ", "how many voices "], ["what happens ", "what will happen ", "tell me what happens "],
        ["what does ", "tell me what does ", "so what does "], ["is omni ", "tell me, is omni ", "say, is omni "]]


# ------------------------------------------------------------------------------- arithmetic
FRAMES = {
    "addition": ["{a}+{b}", "{a} + {b}", "{a}+{b}=", "{a} + {b} = ?", "{a} plus {b}", "what is {a} plus {b}?", "what is {a} + {b}?", "what is {a}+{b}?",
                 "how much is {a} plus {b}?", "how much is {a} + {b}?", "add {a} and {b}", "what is the sum of {a} and {b}?", "calculate {a} plus {b}.",
                 "compute {a} + {b}", "what do you get when you add {a} and {b}?", "sum of {a} and {b}", "what does {a} plus {b} make?", "can you add {a} and {b}?",
                 "{a} and {b} together make?", "work out {a} plus {b}.", "what do {a} and {b} add up to?", "how much do {a} and {b} make?", "what is {a} and {b} in all?",
                 "add {b} to {a}.", "{a} and {b}, what is the sum?", "i need {a} plus {b}.", "let us add {a} and {b}.", "tell me the sum of {a} and {b}.",
                 "so {a} plus {b} is what?", "what would {a} plus {b} be?", "there are {a} cars and {b} more come. how many cars are there now?",
                 "if you have {a} coins and find {b} more, how many coins do you have?", "put {a} and {b} together.", "{a} increased by {b}", "raise {a} by {b}.",
                 "{a} more than {b} is what?", "which number is {a} more than {b}?", "what number do {a} and {b} come to?",
                 "i had {a} apples and got {b} more. how many do i have?", "anna has {a} stamps and tom has {b}. how many do they have together?",
                 "put {a} on top of {b}.", "{a} and another {b}, how much is that?", "a shelf holds {a} books. we add {b}. how many are on it then?",
                 "i walk {a} steps and then {b} more. how many steps in all?", "what is the total of {a} and {b}?", "total up {a} and {b}."],
    "subtraction": ["{a}-{b}", "{a} - {b}", "{a}-{b}=", "{a} - {b} = ?", "{a} minus {b}", "what is {a} minus {b}?", "what is {a} - {b}?", "what is {a}-{b}?",
                    "how much is {a} minus {b}?", "how much is {a} - {b}?", "subtract {b} from {a}.", "take {b} away from {a}.", "calculate {a} minus {b}.",
                    "compute {a} - {b}", "what is {a} less {b}?", "what is left when you take {b} from {a}?", "can you subtract {b} from {a}?", "work out {a} minus {b}.",
                    "take {b} from {a}.", "deduct {b} from {a}.", "{a} without {b}?", "what is the result of {a} minus {b}?",
                    "how much is left of {a} after taking away {b}?", "i need {a} minus {b}.", "so {a} minus {b} is what?", "what would {a} minus {b} be?",
                    "{a} take away {b}", "tell me {a} minus {b}.", "what do you have when you take {b} away from {a}?",
                    "there were {a} birds and {b} flew away. how many birds are left?", "{a} reduced by {b}", "{a} decreased by {b}", "lower {a} by {b}.",
                    "which number is {b} less than {a}?", "i had {a} apples and ate {b}. how many are left?", "tom has {a} marbles and loses {b}. how many does he keep?",
                    "if you spend {b} of {a} dollars, what remains?", "there are {a} seats and {b} are taken. how many are free?", "what remains of {a} without {b}?",
                    "i have read {b} of {a} pages. how many are left?", "go back {b} from {a}."],
    "multiplication": ["{a}*{b}", "{a} * {b}", "{a}x{b}", "{a} x {b}", "{a}*{b}=", "{a} x {b} = ?", "{a} times {b}", "what is {a} times {b}?", "what is {a} * {b}?",
                       "what is {a} x {b}?", "what is {a}*{b}?", "how much is {a} times {b}?", "multiply {a} by {b}.", "multiply {a} and {b}.",
                       "what is the product of {a} and {b}?", "calculate {a} times {b}.", "compute {a} * {b}", "what is {a} multiplied by {b}?",
                       "can you multiply {a} by {b}?", "{a} × {b}", "work out {a} times {b}.", "{a} multiplied by {b}", "what would {a} times {b} be?",
                       "so {a} times {b} is what?", "i need {a} times {b}.", "tell me {a} times {b}.", "how many are {a} times {b}?",
                       "what do you get when you multiply {a} by {b}?", "{a} by {b} multiplied is?", "there are {a} boxes with {b} pens each. how many pens is that?",
                       "{a} lots of {b}", "{a} groups of {b}, how many is that?", "{a} multiplied with {b} gives what?", "take {a} {b} times.",
                       "how much is {a} multiplied by {b}?", "find the product of {a} and {b}.", "i buy {a} tickets at {b} dollars each. what do i pay?",
                       "{a} rows with {b} chairs each: how many chairs?", "a room is {a} by {b} feet. how many square feet?",
                       "every one of {a} children has {b} pencils. how many pencils are there?", "a train has {a} cars with {b} seats each. how many seats?",
                       "if i save {a} coins a week, how many do i have after {b} weeks?", "add up {a} {b} times.", "{a} packs of {b} eggs, how many eggs are there?"],
    "division": ["{a}/{b}", "{a} / {b}", "{a}:{b}", "{a}/{b}=", "{a} / {b} = ?", "{a} divided by {b}", "what is {a} divided by {b}?", "what is {a} / {b}?",
                 "what is {a}/{b}?", "how much is {a} divided by {b}?", "divide {a} by {b}.", "can you divide {a} by {b}?", "calculate {a} divided by {b}.",
                 "compute {a} / {b}", "how often does {b} go into {a}?", "{a} ÷ {b}", "work out {a} divided by {b}.", "what is {a} over {b}?",
                 "what would {a} divided by {b} be?", "so {a} divided by {b} is what?", "i need {a} divided by {b}.", "tell me {a} divided by {b}.",
                 "split {a} into {b} equal parts.", "how many {b}s are in {a}?", "how many times does {b} go into {a}?", "what do you get when you divide {a} by {b}?",
                 "{a} coins for {b} people: how many does each get?", "share {a} among {b} people.", "{a} shared by {b}", "{a} split {b} ways",
                 "how many groups of {b} can i make from {a}?", "what is {a} split by {b}?", "cut {a} into {b} equal pieces. how large is each?",
                 "{b} friends share {a} sweets. how many does each get?", "i have {a} eggs and {b} fit into a box. how many boxes do i need?",
                 "what is the quotient of {a} and {b}?", "{b} tickets cost {a} dollars. what does one cost?",
                 "a rope of {a} feet is cut into {b} equal parts. how long is each?", "{a} pupils make {b} equal teams. how many are in a team?",
                 "deal {a} cards to {b} players. how many does each one get?"],
}
# Of a difference the larger number comes first, whatever is named first: {x} and {y} are the two in any order.
# Stories and comparisons are told with numbers for which they make sense: {t} are things, {n} has or does something.
LOOSE = {
    "addition": {
        "noun": ["{a} plus {b}", "the [sum|total|grand total] of {a} and {b}",
                 "{a} and {b} [together|combined|added up|added together|in total|in all|taken together|as a sum]", "{a} + {b}", "{a}+{b}",
                 "{a} [increased by|raised by|with an extra|plus another|with] {b}[| added| on top]", "{b} more than {a}",
                 "the [result|answer|outcome] of {a} [plus|+] {b}", "the result of adding {b} to {a}", "the sum {a} plus {b}", "{a} {u} [plus|and] {b} {u}[| together]",
                 "the two numbers {a} and {b} added", "${a} plus ${b}"],
        "verb": ["add {a} [and|to|plus|with] {b}[| together| up]", "[work out|calculate|compute|figure out|find|do|solve|evaluate|determine] {a} [plus|+] {b}",
                 "[work out|calculate|find|compute] the [sum|total] of {a} and {b}", "[sum|total|sum up|add up|tot up] {a} and {b}",
                 "[put|bring|throw] {a} and {b} together", "[increase|raise] {a} by {b}", "take {a} and [add|put on] {b}", "add {b} to [the number |]{a}",
                 "start [from|with|at] {a} and [add|go up by|go up] {b}", "combine {a} and {b}", "do the sum {a} plus {b}",
                 "add these [two |][numbers |]for me: {a}[, | and ]{b}", "add {a} {u} and {b} {u}"],
        "clause": ["what {a} and {b} [make|come to|add up to|give|total|sum to][| together]", "how much {a} and {b} [are|make|come to][| together]",
                   "what [you|i|we] get [when|if] [you|i|we] add {b} to {a}", "what {a} plus {b} [is|makes|comes to|equals|gives]", "how much {a} plus {b} is",
                   "which number is {b} [more|greater|larger|higher] than {a}"],
        "whole": ["[take|start with|begin with|think of|here is] {a}[,|.| and] [add|now add|then add] {b}[,|.] [what do you get|what is it now|what comes out"
                      "|how much is that|where are we|what's the total]?",
                  "{a} plus {b} [equals|makes|gives|is|comes to] what?", "{a} and {b}: [sum|total|what's the sum|added, please|add them]?",
                  "[numbers|two numbers]: {a} and {b}. [add them|what do they make|sum them up|what is the total].",
                  "what number do you [reach|get to|arrive at] [if|when] you go up {b} from {a}?", "is it true that {a} plus {b} is {z}?", "does {a} plus {b} make {z}?",
                  "{n} had {a} {t} and [got|bought|found|received|won|earned|collected|picked up|borrowed|made] [another {b}|{b} more|{b} extra]. "
                      "[how many now|how many is that|how many are there now|what's the total|how many in all]?",
                  "{a} {t} [are|were|sit|lie|wait] [in the house|on the table|outside|in the box|here|in a bag|at school] and {b} "
                      "[more |others ][come|arrive|are added|join them|turn up]. [how many now|how many are there|how many altogether|what's the total]?",
                  "{n} [bought|saw|counted|sold|made|found|cooked|read|picked|carried] {a} {t} [on {d}|yesterday|in the morning|last week|first] and {b} "
                      "[on {e}|today|in the afternoon|this week|later|afterwards]. how many [|{t} ][in all|altogether|in total|were there together|is that]?",
                  "[there are|i see|we have|i count|they have|i've got] {a} [red|old|large|white|good|cheap] {t} and {b} [blue|new|small|black|bad|dear] "
                      "[ones|{t}]. how many [|{t} ][in all|altogether|in total|are there|is that]?",
                  "one [box|bag|room|shelf|basket|truck|class|jar] [holds|has|contains] {a} {t}, [another|the other|a second one|the next] [|holds |has ]{b}. "
                      "how many [|{t} ][in both|together|in total|altogether|are there]?",
                  "[a coat|the book|lunch|a ticket|the lamp|my phone] costs {a} {m} and [shoes|a pen|dinner|the train|a bulb|its cover] {b}. "
                      "[what do i pay|how much together|what is the bill|how much for both|what do both cost]?",
                  "if {a} {t} and {b} {t} are put together, how many [|{t} ]are there?",
                  "{n} [is|are] {a} [steps|pages|miles|points] along and [go|goes|moves] {b} [further|more]. [where is that|what is the total]?",
                  "{n} [scored|won|made] {a} points and then {b} [more|again]. what's the [score|total|sum]?",
                  "the [bus|train|boat] has {a} people on it and {b} [more |]get on. how many are [aboard|on it][| now]?"]},
    "subtraction": {
        "noun": ["{a} minus {b}", "{a} [less|without|reduced by|decreased by|lowered by|take away] {b}",
                 "the [result|answer|outcome] of {a} [minus|-] {b}", "{a} - {b}", "{a}-{b}", "{b} [subtracted|taken away|taken|deducted|removed] from {a}",
                 "{b} [less|fewer|smaller] than {a}", "the result of [subtracting|taking|deducting] {b} from {a}", "the difference [between|of] {x} and {y}",
                 "the [gap|distance|difference] between {x} and {y}", "what is left of {a} after {b}", "{a} {u} [minus|less] {b} {u}", "${a} minus ${b}"],
        "verb": ["[subtract|take|deduct|remove|take away|knock off] {b} from {a}",
                 "[work out|calculate|compute|figure out|find|do|solve|evaluate|determine] {a} [minus|-] {b}",
                 "[work out|calculate|find|compute|give me] the difference [between|of] {x} and {y}", "[reduce|decrease|lower|lessen] {a} by {b}",
                 "take {a} and [subtract|remove|take off|take away] {b}", "start [from|with|at] {a} and [subtract|take away|go down by|go back] {b}",
                 "take {b} [off|away from|out of] {a}", "do the sum {a} minus {b}", "go down from {a} by {b}"],
        "clause": ["what [is left|remains|you have left|stays] [if|when|after] [you take|i take|we take|taking] {b} [from|away from|off] {a}",
                   "how much [bigger|larger|more|greater|higher] {a} is than {b}", "how much [smaller|less|lower] {b} is than {a}",
                   "by how much {a} [exceeds|is above|is more than|beats] {b}", "what must be added to {b} to [reach|get|make] {a}", "how far it is from {b} to {a}",
                   "what {a} minus {b} [is|makes|comes to|equals|gives|leaves]", "how much {a} minus {b} is", "what the difference between {x} and {y} is",
                   "how many more than {b} {a} is"],
        "whole": ["[take|start with|begin with|think of|here is] {a}[,|.| and] [remove|subtract|take away|now subtract|then take off|minus] {b}[,|.] "
                      "[what's left|what is left|what do you get|what remains|what comes out|how much is that]?",
                  "how much [bigger|larger|more|greater|higher] is {a} than {b}?", "how much [smaller|less|lower] is {b} than {a}?",
                  "by how much [does {a} exceed {b}|is {a} more than {b}|is {b} below {a}|do {x} and {y} differ]?",
                  "[how far|how much|how many steps] is it from {b} to {a}?",
                  "what [must|should|needs to|has to] be added to {b} to [reach|get|get to|make|arrive at] {a}?",
                  "what do [i|you|we] [|have to |need to ]add to {b} to [reach|get|get to|make|arrive at] {a}?",
                  "how [much|many] [is|are] [missing|needed|lacking] from {b} to {a}?", "{b} plus what [is|makes|gives|equals] {a}?",
                  "{a} minus {b} [equals|makes|gives|is|leaves] what?", "{x} and {y}: [difference|what's the difference|how far apart are they]?",
                  "what number is {b} [less|lower|smaller] than {a}?", "from {a}, [subtract|take|remove] {b}. [what now|what's left|result]?",
                  "is it true that {a} minus {b} is {z}?",
                  "{n} had {a} {t} and [lost|gave away|sold|threw away|broke|used up|dropped|handed out|left behind|gave back|mailed|lent out] {b}[| of them]. "
                      "how many [|{t} ][are left|remain|are still there|stay|were left]?",
                  "{a} {t} [are|were|sit|lie|wait] [in the house|on the table|outside|in the box|here|in a bag|at school] and {b} "
                      "[go away|leave|are taken|are removed|get lost|disappear|are sold|run off]. [how many stay|what's left|how many are left|how many remain]?",
                  "[of|out of] {a} {t}[,|] {b} [are|were] [broken|gone|sold|red|sick|late|missing|used|empty|lost]. how many [are not|are left|are still fine|remain]?",
                  "{n} wanted {a} {t} [but|and] [has|got|have] only {b}. how many [|{t} ]are [missing|needed|still needed]?",
                  "there [are|is room for|were] {a} {t}. {b} [are|were] [taken|gone|used]. how many [are free|remain|are left]?",
                  "{n} had {a} {m} and [spent|paid|lost|gave away] {b}. [how much is left|what remains|what is left over|how much remains]?",
                  "[a coat|the book|a ticket|the lamp] costs {a} {m}[,| and] i have {b}. [how much do i need|how much is missing|what is missing]?",
                  "the [bus|train|boat] has {a} people on it and {b} get off. how many [are still on it|stay on|remain]?",
                  "the [road|trip|book|film|race] is {a} [miles|pages|minutes|steps] long and {n} did {b}. how [many|much] [are left|to go|remain]?",
                  "[anna|tom|my uncle|the king|his wife] is {a} [years old|years] and [peter|lisa|her son|my aunt] is {b}. "
                      "[what is the difference|how many years lie between them|how much older is the first]?"]},
    "multiplication": {
        "noun": ["{a} times {b}", "the product of {a} and {b}", "{a} multiplied [by|with] {b}", "{a} [lots|groups|sets] of {b}", "{a} x {b}", "{a} * {b}",
                 "the [result|answer|outcome] of {a} [times|x|*] {b}", "the result of multiplying {a} [by|and|with] {b}", "{a} [times|multiplied by] {b} {u}",
                 "the product {a} times {b}", "{a} by {b} as a product"],
        "verb": ["multiply {a} [by|and|with|times] {b}[| together]",
                 "[work out|calculate|compute|figure out|find|do|solve|evaluate|determine] {a} [times|x|*|multiplied by] {b}",
                 "[work out|calculate|find|compute] the product of {a} and {b}", "take {a} and multiply [it |]by {b}", "take {b} {a} times", "add {b} up {a} times",
                 "do the [sum|product] {a} times {b}", "make {a} groups of {b} and count them all"],
        "clause": ["what [you|i|we] get [when|if] [you|i|we] multiply {a} [by|and|with] {b}", "what {a} times {b} [is|makes|comes to|equals|gives]",
                   "how much {a} times {b} is", "how many {a} [lots|groups] of {b} are", "what the product of {a} and {b} is", "how many {t} are in {a} {h} of {b}"],
        "whole": ["[take|start with|begin with|think of|here is] {a}[,|.| and] [multiply it by|times|multiply by|now times] {b}[,|.] "
                      "[what do you get|what is it now|what comes out|how much is that]?",
                  "{a} times {b} [equals|makes|gives|is|comes to] what?", "{a} and {b}: [product|what's the product|multiplied, please|multiply them]?",
                  "is it true that {a} times {b} is {z}?", "what do i get [for|if i take] {a} times {b}?",
                  "[there are|i have|we need|they sell|{n} packed|{n} filled|{n} ordered|here are] {a} {h} [with|of|holding] {b} {t}[| each| in each| apiece]. "
                      "how many {t} [in all|altogether|is that|are there|in total|are that]?",
                  "each of [|the |my ]{a} {h} [holds|has|contains|is filled with] {b} {t}. how many [|{t} ][in all|altogether|in total|are there]?",
                  "{b} {t} [fit|go|are|belong] in [one|each|every] [box|bag|row|crate|basket|room|case]. how many [|{t} ][fit|go|are] in {a}?",
                  "{a} {t} [at|for] {b} {m} [each|apiece|a piece|per piece]. [what do i pay|how much is that|what's the price|how much do they cost|what is the bill"
                      "|total cost]?",
                  "one [ticket|book|cup|pen|plate|hat|lamp] costs {b} {m}. [how much do|what do|what would|how much would] {a} cost?",
                  "{a} {p} [each |all ][bring|have|carry|eat|buy|own|get] {b} {t}[| each]. how many [|{t} ][in all|altogether|in total|is that]?",
                  "every one of [the |my |]{a} {p} [brings|has|carries|eats|buys|owns|gets] {b} {t}. how many {t} [in all|altogether|in total|is that]?",
                  "{n} [saved|earned|spent|put aside] {b} {m} [every|each] {i}. how much [is that|was it] [after|in|over] {a} {i}s?",
                  "{n} [reads|walked|writes|made|baked|can do|sold] {b} [pages|miles|letters|cakes|lines|cups] [every|each] {i}. how many in {a} {i}s?",
                  "a [car|train|bird|ship] [goes|does|makes|travels] {b} miles [every|each|per] {i}. how [far|many miles] [in|after] {a} {i}s?",
                  "{a} rows of {b} {t}[:|,|.] how many [|{t} ][in all|altogether|in total|is that]?",
                  "a [garden|field|floor|wall|carpet|screen] is {a} by {b} "
                      "[feet. [what is the area|how big is it|how many square feet]|metres. [what is the area|how many square metres]]?",
                  "if one takes {b} minutes, how [long|many minutes] do {a} [of them |]take?"]},
    "division": {
        "noun": ["{a} divided by {b}", "the quotient of {a} and {b}", "{a} over {b}", "{a} split [by|into] {b}[| equal parts]", "{a} shared [by|among|between] {b}",
                 "{a} / {b}", "{a} : {b}", "the [result|answer|outcome] of {a} [divided by|/|over] {b}", "the result of dividing {a} by {b}", "{a} {u} divided by {b}",
                 "[each share|one share] when {a} is split by {b}"],
        "verb": ["[divide|split] {a} by {b}", "[work out|calculate|compute|figure out|find|do|solve|evaluate|determine] {a} [divided by|/|over] {b}",
                 "[work out|calculate|find|compute] the quotient of {a} and {b}", "take {a} and divide [it |]by {b}",
                 "[split|divide|cut|break up|separate] {a} into {b} [equal |even ][parts|pieces|groups|shares]",
                 "[share|split|divide|spread] {a} [among|between|over] {b}[| {p}]",
                 "[share|split|divide|distribute|deal out|hand out] {a} {t} [among|between|to] {b} {p}", "do the [sum|division] {a} divided by {b}"],
        "clause": ["what [you|i|we] get [when|if] [you|i|we] divide {a} by {b}", "what {a} divided by {b} [is|makes|comes to|equals|gives]",
                   "how [often|many times] {b} [goes|fits] [into|in] {a}", "how many {b}s [are|fit] in {a}", "how much each of {b} {p} gets [of|from] {a} {t}",
                   "how many {t} each of {b} {p} gets [of|from] {a}", "what the quotient of {a} and {b} is",
                   "how many groups of {b} [there are in|fit in|can be made from] {a}"],
        "whole": ["[take|start with|begin with|think of|here is] {a}[,|.| and] [divide it by|divide by|split it by|now divide by] {b}[,|.] "
                      "[what do you get|what is it now|what comes out|how much is that]?",
                  "{a} divided by {b} [equals|makes|gives|is|comes to] what?", "{a} and {b}: [quotient|what's the quotient|divided, please]?",
                  "is it true that {a} divided by {b} is {z}?", "how [often|many times] [does|will|can] {b} [fit|go] [into|in] {a}?",
                  "{b} times what [is|makes|gives|equals] {a}?", "what times {b} is {a}?", "by what [must|do] i multiply {b} to get {a}?",
                  "into how many [groups|piles|teams|bags] of {b} can {a} [|{t} ]be [split|put|divided]?",
                  "{a} {t} [are|were|will be|must be|have to be] [shared|split|divided|dealt|handed out] [equally |evenly |fairly |][among|between|to] {b} {p}. "
                      "how many [|{t} ][for each|per head|does each get|for everyone|each]?",
                  "{b} {p} [share|divide|split|get] {a} {t}[| equally| evenly| fairly]. how many [|{t} ][for each|per head|does each get|does one get|each]?",
                  "[i have|there are|{n} had|we have|here are] {a} {t} for {b} {p}. how many [|{t} ][for each|per head|does each get|does everyone get]?",
                  "{n} [packed|put|sorted|arranged|loaded] {a} {t} [into|in] {b} [equal |][boxes|bags|rows|piles|crates|baskets]. "
                      "how many [|{t} ][in each|per box|go in one|in every one]?",
                  "{a} {t} [go|fit|are packed|are sorted|are put] into {h} of {b}. how many {h} [are needed|do i need|are there|does that make|is that]?",
                  "{b} {t} [fit|go] in one [box|bag|row|crate|basket|bus]. how many [of those|of them] [for|do i need for|hold] {a}[| {t}]?",
                  "{b} [tickets|books|cups|pens|plates|lamps] cost {a} {m}[| together]. [what does one cost|how much is one|what is the price of one|how much for one]?",
                  "a bill of {a} {m} [is split by|for|is shared by] {b} {p}. [how much each|what does each pay|how much does everyone pay]?",
                  "{n} [did|drove|walked|ran|read|wrote] {a} [miles|pages|lines] in {b} {i}s. how many [per|each|every] {i}?",
                  "a [rope|cake|board|wire|field|ribbon] of {a} [feet|inches|pieces|yards] [is|gets|was] [cut|divided|split] into {b} [equal |]parts. "
                      "how [long|big|large] is [each|one|every part]?",
                  "{a} {p} [form|make|stand in|sit in] {b} [equal |]rows. how many [in each|per row|in a row]?"]},
}
# Words that have one of the numbers in them.
FIXED = {
    "multiplication": [(2, ["[double|twice] {b}", "the double of {b}", "{b} doubled", "two times {b}"]),
                       (3, ["[triple|thrice] {b}", "the triple of {b}", "three times {b}"]),
                       (12, ["{b} dozen", "{b} dozens", "the number of eggs in {b} dozen"]),
                       (4, ["the quadruple of {b}", "four times {b}"]),
                       (60, ["the minutes in {b} hours", "the number of seconds in {b} minutes"]),
                       (7, ["the number of days in {b} weeks", "the days of {b} weeks"])],
    "division": [(2, ["half of {a}", "[a|one] half of {a}", "{a} halved", "the half of {a}", "50 percent of {a}"]),
                 (3, ["[a|one] third of {a}"]),
                 (4, ["[a|one] quarter of {a}", "a fourth of {a}"]),
                 (5, ["[a|one] fifth of {a}"]),
                 (10, ["[a|one] tenth of {a}", "10 percent of {a}"]),
                 (12, ["the number of dozens in {a}"]),
                 (7, ["the number of weeks in {a} days"]),
                 (60, ["the number of hours in {a} minutes"])],
}
WHO_HAS = ("i;we;you;they;she;he;anna;tom;Maria;Peter;Lisa;Ben;Sara;Ali;Emma;Max;Grandma;my brother;my sister;my friend;our neighbour;the farmer;the baker;the teacher;"
           "the shop;a boy;a girl;a man;the school;the library;my mother;my uncle;the children;her dad;a friend of mine;the captain;the class").split(";")
THINGS = ("apples;books;coins;marbles;stamps;eggs;cookies;cards;pens;pencils;flowers;oranges;cakes;chairs;cups;plates;birds;fish;sheep;cows;horses;chickens;tickets;"
          "letters;bottles;boxes;toys;dolls;stones;shells;bananas;grapes;nuts;candies;sweets;balloons;stickers;pictures;songs;cars;bikes;shirts;socks;shoes;hats;"
          "bricks;trees;seeds;tomatoes;potatoes;carrots;lemons;peaches;plums;roses;candles;keys;lamps;windows;rooms;pages;photos;messages;players;pupils;guests;"
          "passengers;soldiers;cats;dogs;ducks;bees;mice;rabbits;pigs;goats;tables;spoons;forks;knives;buttons;beads;ribbons;nails;screws;tools;sandwiches;pizzas;"
          "muffins;donuts;crayons;erasers;rulers;notebooks;magazines;newspapers;videos;games;puzzles;medals;points").split(";")
PEOPLE = ("people;children;friends;kids;pupils;students;players;workers;guests;men;women;boys;girls;"
          "cousins;sisters;teams;families;neighbours;soldiers;sailors").split(";")
HOLDERS = ("boxes;bags;rows;baskets;crates;shelves;packs;jars;rooms;trucks;tables;drawers;cases;"
           "buckets;piles;cartons;trays;classes;teams;pockets;cages;albums").split(";")
UNITS = "dollars;euros;pounds;cents;metres;feet;miles;kilometres;litres;grams;kilos;minutes;hours;days;points;inches;degrees;yards".split(";")
TIMES = ["hour", "day", "week", "month"]


# ------------------------------------------------------------------------------- counting
UP = ["count from {a} to {b}.", "count up from {a} to {b}.", "please count from {a} to {b}.", "can you count from {a} to {b}?", "count {a} to {b}",
      "count from {a} up to {b}", "say the numbers from {a} to {b}.", "list the numbers from {a} to {b}.", "what are the numbers from {a} to {b}?",
      "start counting at {a} and stop at {b}.", "give me the numbers from {a} to {b}.", "count on from {a} until {b}.", "which numbers are from {a} to {b}?",
      "count for me from {a} to {b}.", "from {a} to {b}, count.", "let me hear the numbers from {a} to {b}.", "go from {a} to {b} one by one.",
      "start with {a} and go up to {b}.", "begin at {a} and count until you reach {b}.", "all numbers between {a} and {b}, with both ends, please.",
      "tell me every number from {a} to {b}."]
DOWN = ["count down from {a} to {b}.", "count backwards from {a} to {b}.", "count from {a} down to {b}.", "please count down from {a} to {b}.",
        "can you count down from {a} to {b}?", "count from {a} to {b}.", "count backward from {a} to {b}.", "count {a} to {b}",
        "say the numbers from {a} down to {b}.", "please count from {a} to {b}.", "can you count from {a} to {b}?", "say the numbers from {a} to {b}.",
        "list the numbers from {a} to {b}.", "start at {a} and count backwards until {b}.", "from {a} to {b}, count down.", "countdown from {a} until {b}.",
        "count in reverse from {a} to {b}.", "let me hear the numbers from {a} down to {b}.", "go down from {a} to {b}.", "start with {a} and go down to {b}.",
        "begin at {a} and count back until you reach {b}.", "starting at {a}, count backwards to {b}."]
BY = ["count from {a} to {b} by {s}.", "count by {s} from {a} to {b}.", "count in {s} from {a} to {b}.", "count from {a} to {b} in {s}.",
      "can you count by {s} from {a} to {b}?", "count from {a} to {b} in steps of {n}.", "by {s}, count from {a} to {b}.", "say the numbers from {a} to {b} by {s}.",
      "count from {a} to {b}, but by {s}.", "start at {a} and count by {s} until {b}.", "count from {a} to {b} in jumps of {n}.", "go from {a} to {b} in steps of {n}.",
      "take steps of {n} from {a} to {b}.", "let me hear you count from {a} to {b} by {s}.", "with a step of {n}, count from {a} to {b}."]
TO = ["count to {b}.", "can you count to {b}?", "please count to {b}.", "count up to {b}.", "count until {b}.", "just count to {b}.", "how do you count to {b}?",
      "i want you to count to {b}.", "let me hear you count to {b}.", "show me that you can count to {b}.", "count as far as {b}.", "say all the numbers up to {b}.",
      "go on counting until you reach {b}.", "are you able to count to {b}?"]
RANGE = ["from {a} to {b}", "from {a} [through|until|up to|till] {b}", "between {a} and {b}",
         "starting [at|with|from] {a} [and ending|and stopping|and ending up|up to and stopping] [at|with] {b}", "[beginning|starting] at {a}, ending at {b}",
         "{a} to {b}", "{a} through {b}"]
DOWN_RANGE = ["from {a} [down |back |backwards |]to {b}", "from {a} [down |backwards |]until {b}", "[starting|beginning] [at|with|from] {a}, [ending|stopping] at {b}",
              "{a} [down |]to {b}", "beginning with {a} down to {b}"]
WHOLE_COUNT = ["{r}[: count|, count please|, one by one, please|, all the numbers|, say the numbers|, counting up].", "how does one count {r}?",
               "i say {a}, you [go on|continue|count on] [to|until] {b}.", "[numbers|all numbers|every number|the numbers|whole numbers] {r}[, please|].",
               "let's play hide and seek. count {r}.", "[which|what] numbers [do i say|are there|come|does one say] when i count {r}?", "what comes when you count {r}?",
               "my [daughter|son|child] learns to count. [show her how|do it] {r}.", "i want to hear every number {r}."]
LOOSE_UP = {
    "verb": ["count {r}", "count [up|out loud|aloud|slowly|for me|one by one] {r}",
             "[list|say|name|recite|write|write out|print|enumerate|read out|go through|give me|tell me|show me] [the|all the|all|every one of the] "
                 "[|whole |natural ]numbers {r}",
             "do a count {r}", "keep counting {r}", "start [at|with|from] {a} and [count|go|keep going|continue] [up |][to|until] {b}"],
    "whole": WHOLE_COUNT,
    "clause": ["which numbers [come|lie|there are] {r}", "how to count {r}", "what the numbers {r} are"],
}
LOOSE_DOWN = {
    "verb": ["count [down|backwards|backward|in reverse|back|in descending order] {r}", "[do|give me|start|make|run] a countdown {r}",
             "count down [out loud|aloud|slowly|one by one] {r}",
             "[list|say|name|recite|write out|go through|give me|tell me] the numbers {r}[, backwards| in reverse| in descending order]",
             "start [at|with|from] {a} and [count|go] [down|backwards|back] [to|until] {b}"],
    "whole": ["[countdown|backwards]: {r}[, please|].", "{r}[: count down|, counting down|, backwards please].", "we [launch|start] a rocket. count down {r}.",
              "in reverse order, the numbers {r}.", "how does one count backwards {r}?", "{r}, [count|say it] backwards."],
    "clause": ["how to count [down|backwards] {r}", "which numbers come if one counts backwards {r}"],
}
LOOSE_BY = {
    "verb": ["count [by|in] {s} {r}", "count {r} [by|in|using] {s}",
             "[list|say|recite|write|give me|tell me] [every {o} number|the numbers by {s}|the numbers in {s}] {r}", "skip count [by|in] {s} {r}",
             "go {r} in [steps|jumps|hops|leaps] of {n}", "count in [steps|jumps|leaps] of {n} {r}"],
    "whole": ["by {s}: {r}.", "[by|in] {s}[,|, please,] {r}.", "{r}[,|:] [by|in] {s}[, please|].", "{r}, step {n}.", "steps of {n}, {r}.",
              "start at {a}, {g} {n} [each time|every time|again and again] until {b}.", "how does one count by {s} {r}?",
              "[every|each] {o} number {r}, please."],
    "clause": ["how to count by {s} {r}", "what comes when one counts by {s} {r}"],
}
LOOSE_TO = {
    "verb": ["count [up |all the way |aloud |out loud |slowly |as far as |from one |for me ]to {b}", "count [until|up until|till|from 1 to] {b}",
             "[list|say|name|recite|write|give me] [the|all|all the] [first {b} numbers|numbers up to {b}|numbers from one to {b}|numbers to {b}]"],
    "whole": ["[all |the |]numbers [up to|until|from one to] {b}[, please|].", "[i hide|close your eyes] and you count to {b}.", "to {b}, count.",
              "up to {b}[, please|: count].", "how far can you count? [do it to|try] {b}.", "the first {b} numbers[, please|].", "how does one count to {b}?"],
    "clause": ["how to count [up |]to {b}", "how counting to {b} [goes|sounds|works]"],
}


# ------------------------------------------------------------------------------- spelling, repeating
SPELL = ["spell {w}.", "how do you spell {w}?", "how is {w} spelled?", "can you spell {w}?", "spell the word {w}.", "please spell {w}.", "how do i spell {w}?",
         "how do you write {w}?", "spell {w} for me.", "what are the letters of {w}?", "how would you spell {w}?", "could you spell {w}?", "give me the letters of {w}.",
         "i want to know how to spell {w}.", "how should {w} be spelled?", "tell me how {w} is spelled.", "i forgot how to spell {w}.", "{w}: how is that spelled?",
         "what is the spelling of {w}?", "which letters are in {w}?", "can you spell the word {w}?", "spell: {w}", "spell out {w}.", "spell out the word {w}, please.",
         "what is the right way to spell {w}?", "how does one spell {w}?", "i don't know how {w} is written.", "how is the word {w} written?",
         "break {w} up into its letters.", "give me {w} letter for letter.", "which letters make up {w}?"]
LOOSE_SPELL = {
    "noun": ["the [|correct |right |exact |proper ]spelling of [|the word |the term ]{w}", "the letters [of|in|that make up] [|the word ]{w}[|, one by one|, in order]",
             "{w}, letter by letter", "the [individual |single |]letters of {w}", "{w} spelled out"],
    "verb": ["spell [|the word |the term |this word: |out ]{w}[|, letter by letter| letter by letter| correctly| out loud| slowly]",
             "[say|list|name|read out|write out|dictate|tell me|give me|show me] the letters of [|the word ]{w}", "break {w} [up |down |]into [its |single |]letters",
             "write {w} letter by letter", "take {w} apart letter by letter", "say {w} letter for letter"],
    "clause": ["how {w} is [spelled|spelt|written]", "how [you|one|people|i|they|we] [spell|write] [|the word ]{w}",
               "how to [spell|write] [|the word ]{w}[| correctly| right]", "which letters {w} [has|is made of|consists of]", "what the letters of {w} are",
               "how [|the word ]{w} should be [spelled|written]"],
    "whole": ["how [do|would|can|should] [you|i|we|they|people] [spell|write] [|the word |the term ]{w}?", "how [does|would] one [spell|write] {w}?",
              "{w}[,|:|.| -] [how do you spell that|how is that spelled|how is it written|spell it|spell that|how do i spell this|which letters are those"
                  "|spelling please|letters please]?",
              "[the|my|next|your|a] word[| is|:] {w}. [spell it|how is it spelled|letters, please|please spell|now spell it].",
              "[the word|how about] {w}: [spell it|how do i write it].", "how [is|was|are] {w} [spelled|spelt|written][| correctly| again| out]?",
              "i [need|have|want|am trying] to [write|spell] {w}[. how|, but how|, please help|. what are the letters|, can you spell it]?", "letters of {w}[, please|?]",
              "spelling of {w}[, please|?]", "spell [me |us |]{w}.", "in a letter i [wrote|used] the word {w}. [is that how it's spelled|how is it spelled]?",
              "what letters do i [need|write|type|use] for {w}?", "i never know how to [spell|write] {w}.", "spelling bee: {w}.", "[i say|you hear] {w}, you spell it."],
}
OBJECT = ("[this|these words|the following|the sentence|the words|the phrase|the text|what follows|my words|this line|this sentence|this phrase|that line|exactly this"
          "|the next words|this text|only this]")
REQUEST = ("[|please |can you |could you |would you |will you |i want you to |just |now |kindly |you should |i'd like you to |let me hear you |i need you to "
           "|go ahead and ]")
VERBATIM = "[say|repeat|echo|speak|read|recite|read out|read aloud|say aloud|parrot|copy|utter|speak out|repeat back|pronounce|say back|tell me]"
LOOSE_REPEAT = {
    "colon": [f"{REQUEST}{VERBATIM} {OBJECT}[| for me| after me| to me| aloud| please| back to me| exactly| once| now]: {{s}}",
              "[after me|repeat after me|here is what you say|your line|say it after me|echo|words to repeat|text|what you say now|say exactly|verbatim"
                  "|please repeat after me|now after me]: {s}",
              f"{REQUEST}{VERBATIM}: {{s}}", "i [say|will say|am going to say] something and you [repeat|echo|say|copy] it: {s}",
              "[listen and|now|simply|word for word,|exactly as i do,] [repeat|say|echo]: {s}"],
    "quoted": [f"{REQUEST}{VERBATIM} [|{OBJECT} ]\"{{s}}\"",
               f"{REQUEST}{VERBATIM} [|{OBJECT} ]\"{{s}}\" [for me|please|after me|aloud|back to me|now|, would you|, will you]",
               "\"{s}\" - [say|repeat|echo|read|now you say] [it|that|this][|, please| after me| for me]",
               "\"{s}\"[, please repeat|, say it|, repeat that please|. now you|. repeat]",
               "[how does it sound when you say|i want to hear|let me hear|what would it sound like if you said] \"{s}\"", "'{s}', [say|repeat] [that|it]",
               f"{REQUEST}{VERBATIM} '{{s}}'"],
    "plain": [f"{REQUEST}[say|repeat|echo] {{s}}", "[repeat|say] after me {s}", f"{REQUEST}[repeat|say|echo|read] the [words|sentence|phrase|text] {{s}}",
              "after me, {s}", "say {s}", "i want to hear you say {s}", "let me hear you say {s}"],
}
NATURAL = ["[the|my|our|a|that] [cat|dog|bird|old man|teacher|train|river|baby|king|neighbour] [sits|sleeps|sings|waits|stays|lives] [on|under|near|behind|in] "
               "[the|our|a] [house|tree|table|garden|water|road|roof|school]",
           "[I|we|they|you] [like|love|want|need|see|have|know] [the|my|some|no|fresh] [bread|music|tea|cake|rain|books|coffee|pizza]",
           "[hello|good morning|good evening|goodbye|welcome|thank you][,|] [world|everyone|my friend|ladies and gentlemen|all of you]",
           "[it's|it is|today is] a [nice|lovely|cold|good|long] [day|morning|evening|week]",
           "[I|we] [don't|can't|won't|didn't] [know|see|want|believe|understand] [it|that|you|him|this]",
           "[Anna|Tom|Peter|Maria|John] [and I |]went to [London|Paris|the market|school|Rome]",
           "[how are you|what is your name|where are you|who is there|what time is it|are you there|how old are you]",
           "[one|two|three|red|big] [ships|birds|fish|stars] [and|or] [four|five|blue|small] [trees|dogs|boats|apples]", "[please |][close|open] the [door|window|book]",
           "[to be or not to be|better late than never|practice makes perfect|time flies|the early bird catches the worm|all is well that ends well"
               "|she sells sea shells|an apple a day keeps the doctor away]",
           "[the weather|my tea|our train|the soup|this song] is [late|cold|good|nice|too hot|very old]"]
REPEAT = ["repeat after me: {s}", "say: {s}", "repeat: {s}", "please say: {s}", "say after me: {s}", "repeat this: {s}", "say \"{s}\"", "repeat \"{s}\"",
          "please repeat: {s}", "can you say: {s}", "say the following: {s}", "repeat this sentence: {s}", "read this aloud: {s}", "repeat the words: {s}",
          "say this: {s}", "could you repeat: {s}", "repeat the sentence: {s}", "just say: {s}", "speak these words: {s}", "echo: {s}",
          "please repeat the following: {s}", "read out: {s}", "say these words after me: {s}", "copy what i say: {s}", "please say this: {s}",
          "i say, and you repeat: {s}", "now say \"{s}\" please", "can you repeat \"{s}\"", "can you say this after me: {s}", "i want to hear you say: {s}",
          "would you say: {s}", "parrot this: {s}", "recite this: {s}", "tell me these words: {s}", "give me back these words: {s}", "pronounce: {s}",
          "say it like me: {s}"]
SMALL = ("the a my your our this that i you we they he she it is was are has had can will and or but of in on at to with for from by not very new old big small good red "
         "green blue cold warm first last next one two three time day man woman child house door water tree road city book name word hand light night morning friend dog "
         "cat bird sun moon rain wind snow sea river hill bread milk tea train car boat music song voice story game work school window table chair user system assistant "
         "server likes sees wants makes takes gives finds keeps reads writes sings runs walks comes goes eats drinks sleeps opens closes stands speaks").split()


# ------------------------------------------------------------------------------- days, months
DAY_AFTER = ["what day comes after {d}?", "which day comes after {d}?", "what day is after {d}?", "which day follows {d}?", "what comes after {d}?", "the day after {d}?",
             "what is the day after {d}?", "which is the next day after {d}?", "after {d} comes?", "today is {d}. what day is tomorrow?",
             "if today is {d}, what is tomorrow?", "what weekday comes after {d}?", "which day is next after {d}?", "*what day follows {d}?",
             "if it is {d} today, what day is tomorrow?", "it is {d} today, so which day is tomorrow?", "tell me the day after {d}.", "which day comes right after {d}?",
             "if yesterday was {d}, which day is it today?", "what will tomorrow be if it is {d} now?", "the next day after {d}?", "which weekday follows {d}?",
             "{d} is over. what day is it now?", "what day do we have after {d}?", "if today is {d}, tomorrow is?", "if today is {d}, tomorrow will be what day?",
             "when {d} ends, which day begins?", "{d} is followed by which day?", "what day will it be once {d} is over?",
             "tonight {d} ends. what day is it in the morning?", "*{d} today, so what do we have tomorrow?", "which day do you get if you go one day on from {d}?",
             "one day later than {d} is which day?"]
DAY_BEFORE = ["what day comes before {d}?", "which day comes before {d}?", "what day is before {d}?", "which day precedes {d}?", "what comes before {d}?",
              "the day before {d}?", "what is the day before {d}?", "before {d} comes?", "today is {d}. what day was yesterday?", "if today is {d}, what was yesterday?",
              "what weekday comes before {d}?", "which is the day before {d}?", "which day is right before {d}?", "if it is {d} today, what day was yesterday?",
              "tell me the day before {d}.", "what day precedes {d}?", "if tomorrow is {d}, which day is it today?", "today it is {d}, so what was yesterday?",
              "which weekday is before {d}?", "what day do we have before {d}?", "what was the day before {d}?", "if today is {d}, yesterday was?",
              "if today is {d}, what day did we have yesterday?", "tomorrow is {d}, so what is today?", "tomorrow will be {d}. what day is it now?",
              "which day ends when {d} begins?", "{d} comes after which day?", "{d} follows which day?", "which day do you get if you go one day back from {d}?",
              "one day earlier than {d} is which day?", "it is {d} today. what did we have yesterday?"]
DAY_LIST = ["[name|list|say|tell me|recite|give me|can you name|can you list|write] [the|all|all the] [days of the week|weekdays|days of a week][| in order]",
            "[what|which] are the [days of the week|weekdays]?", "i want [to hear|to know] [the|all the] [days of the week|weekdays].",
            "how are the days of the week called?", "[what|which] days are [there|in a week|in the week]?", "[the |]days of the week[| in order]"]
DAY_COUNT = ["how many days are in [a|one|the] week?", "how many days [does|do you think does] [a|one|the] week have?",
             "how many days [has|are there in|make] [a|one] week?", "[the |]number of days in a week?", "do you know how many days [a|the] week has?",
             "tell me how many days there are in a week."]
DAY_PLACE = ["what is the {n} day of the week?", "which day is the {n} day of the week?", "the {n} day of the week?", "name the {n} day of the week.",
             "which is the {n} day of a week?"]
MONTH_AFTER = ["which month comes after {d}?", "what month comes after {d}?", "what month is after {d}?", "which month follows {d}?", "what comes after {d}?",
               "the month after {d}?", "what is the month after {d}?", "after {d} comes?", "which is the next month after {d}?", "what month follows {d}?",
               "*which month is next after {d}?", "tell me the month after {d}.", "it is {d}. what month comes then?", "which month comes right after {d}?",
               "what month do we have after {d}?", "if it is {d} now, which month comes next?", "if this month is {d}, what is next month?",
               "{d} is followed by which month?", "when {d} ends, which month begins?", "last month was {d}. what month is it now?",
               "we are in {d}. what will next month be?", "one month after {d} is which month?", "which month do i turn the calendar to after {d}?"]
MONTH_BEFORE = ["which month comes before {d}?", "what month comes before {d}?", "what month is before {d}?", "which month precedes {d}?", "what comes before {d}?",
                "the month before {d}?", "what is the month before {d}?", "before {d} comes?", "which month is right before {d}?", "tell me the month before {d}.",
                "what month precedes {d}?", "which month do we have before {d}?", "what month came before {d}?", "if it is {d} now, which month was before?",
                "if this month is {d}, what was last month?", "{d} follows which month?", "{d} comes after which month?", "which month ends when {d} begins?",
                "next month is {d}. what month is it now?", "we are in {d}. what was last month?", "one month before {d} is which month?", "which month leads up to {d}?"]
MONTH_LENGTH = ["how many days does {d} have?", "how many days are in {d}?", "how many days has {d}?", "how long is {d}?", "number of days in {d}?",
                "what is the number of days in {d}?", "how many days are there in {d}?", "how many days long is {d}?", "does {d} have 31 days?",
                "how many days does the month of {d} have?", "tell me the length of {d}.", "what is the length of {d} in days?", "is {d} a long month?",
                "how many days do i have in {d}?", "of how many days is {d} made?", "how many days long is the month of {d}?", "{d} has how many days?",
                "what is the number of days that {d} has?"]
MONTH_PLACE = ["what is the {n} month?", "which month is the {n} month?", "which month is number {k}?", "what is month number {k}?", "what is the {n} month of the year?",
               "name the {n} month of the year.", "what is the {n} month called?", "tell me the {n} month.", "which month comes {n} in the year?",
               "which is the {n} month?", "the {n} month of the year?", "which one is the {n} month of the year?", "name month {k}.", "which month stands in place {k}?",
               "month number {k} is which one?", "i need the name of month {k}.", "the {n} one of the twelve months is?", "which month do people write as {k}?",
               "the calendar's {n} month is called what?"]
MONTH_NUMBER = ["which number is {d}?", "what number is {d}?", "what number is the month {d}?", "which month of the year is {d}?", "what number does {d} have?",
                "{d} is which number?", "which place does {d} have in the year?", "how do i write {d} as a number?", "as a number, which month is {d}?",
                "what is the number of {d} among the twelve months?", "at which place in the year does {d} come?"]
MONTH_LIST = ["[name|list|say|tell me|recite|give me|can you name|can you list|write] [the|all|all the] months[| of the year| of a year][| in order]",
              "[what|which] are the months[| of the year]?", "i want [to hear|to know] [the|all the] months[| of the year].", "how are the months called?",
              "[what|which] months are [there|in a year|in the year]?", "[the |]months of the year[| in order]",
              "[let me hear|take me through|go through] [the|all the|all twelve] months", "what are the twelve months[| called]?",
              "[list|name] all twelve[| of the] months", "january, february and so on, [go on|name them all|what are they all]?"]
MONTH_COUNT = ["how many months are in [a|one|the] year?", "how many months [does|do you think does] [a|one|the] year have?",
               "how many months [has|are there in|make] [a|one] year?", "[the |]number of months in a year?", "do you know how many months [a|the] year has?",
               "tell me how many months there are in a year.", "a year has how many months?", "how many months go by in [a|one] year?",
               "into how many months is [a|the] year divided?", "of how many months does a year consist?", "[count|how many are] the months of [a|the] year?"]
# {u} is "day" or "month", {e} another one.
LOOSE_AFTER = {
    "noun": ["the [next |]{u} [after|following|that comes after|that follows|right after|directly after|which comes after|just after|coming after] {d}",
             "the {u} that [follows|is next after|comes right after] {d}", "the {u} {d} is followed by", "the one after {d}"],
    "verb": ["[name|say|tell me|give me] the {u} [after|following|that comes after|that follows] {d}", "[say|tell me] what [comes|is|follows] after {d}",
             "go one {u} on from {d}"],
    "clause": ["[which|what] {u} [comes|is|comes next|comes right|follows right|we have|they have|there is] after {d}", "[which|what] {u} follows {d}",
               "what [comes|is next|we have|follows|is] after {d}", "[which|what] {u} {d} is followed by", "[what|which one] the next {u} after {d} is"],
    "whole": ["{d}[, then| and then| is over, and then| comes, and next|, and the next {u}| ends and then comes]?",
              "after {d}[,|:] [which|what] {u} [comes|is it|is next|do we have]?", "[which|what] {u} [is|comes] [next|after that] [after|when it was|once we had] {d}?",
              "{d} is [over|past|done|gone]. [which|what] {u} [is it|comes|begins|starts] [now|next]?",
              "[what|which {u}] [does|will] [come|follow] [after|once we are through with|when we are done with] {d}?", "does {e} come after {d}?",
              "is it {e} that [comes after|follows] {d}?", "[which|what] {u} [starts|begins] [when|after|once] {d} [is over|ends|is done]?",
              "{d}'s [successor|follower|next one] is which {u}?", "[say|suppose|assume|imagine] it is {d}. [which|what] {u} [is|comes] next?",
              "the {u} [|right ]after {d} is [what|which|called what]?", "what's [after|next after|following] {d}?", "{d}, and what [comes|follows|is] after [it|that]?",
              "what is the {u} following {d} [called|named]?", "{d} [was|is] last. [which|what] {u} is next?",
              "[which|what] {u} [will we have|will it be|do we get] [when|once] {d} is over?"],
}
LOOSE_BEFORE = {
    "noun": ["the {u} [before|preceding|that comes before|that precedes|right before|directly before|which comes before|just before|coming before|prior to] {d}",
             "the {u} that [precedes|comes right before] {d}", "the previous {u} before {d}", "the one before {d}"],
    "verb": ["[name|say|tell me|give me] the {u} [before|preceding|that comes before|prior to] {d}", "[say|tell me] what [comes|is|was] before {d}",
             "go one {u} back from {d}"],
    "clause": ["[which|what] {u} [comes|is|comes right|came|we have|they have|there is|was] before {d}", "[which|what] {u} precedes {d}",
               "what [comes|came|we have|is|was] before {d}", "[which|what] {u} {d} [follows|comes after]"],
    "whole": ["before {d}[,|:] [which|what] {u} [comes|is it|is there|do we have|was it]?",
              "[which|what] {u} [is|comes|came|was] [just|right|directly|immediately] before {d}?", "[what|which {u}] [does|did] [come|go] [just |right |]before {d}?",
              "does {e} come before {d}?", "is it {e} that [comes before|precedes] {d}?", "[which|what] {u} [ends|is over|is done] [when|as] {d} [begins|starts|comes]?",
              "[say|suppose|assume|imagine] it is {d}. [which|what] {u} [was|came] before?", "the {u} [|right ]before {d} is [what|which|called what]?",
              "what's [before|right before|preceding] {d}?", "what is the {u} preceding {d} [called|named]?", "{d}, and what [comes|was|is] before [it|that]?",
              "[which|what] {u} [did we have|was it|did we get] [before|until] {d} [came|started|began]?",
              "{d} has [just |]started. [which|what] {u} [ended|was it before|is over]?", "{d} [follows|comes after|is after] [what|which {u}]?",
              "{d}'s [predecessor|previous {u}] is which?"],
}
DAY_AFTER_TOLD = {
    "whole": ["[today is|today's|it is|it's|we have|now it is|now it's|it is now] {d}[,| today,|.| today.| now.] [so |and |][what|which day|what day] "
                  "[is|will be|do we have|will we have|is it|will it be] tomorrow?",
              "[if|when|given that|since|as] [today is|it is|it's|we have] {d}[| today], [what|which day|what day] [is|will be|comes|do we have] tomorrow?",
              "[yesterday was {d}|it was {d} yesterday|yesterday we had {d}][,|.] [so |][what|which day|what day] [is|do we have|is it] today?",
              "[what|which day] [is|will] tomorrow [|be ]if [today is|it is] {d}?", "tomorrow is [what|which day] if [today is|it's] {d}?", "{d} today, tomorrow is?",
              "my [party|exam|flight|trip] is the day after {d}. [which day is that|what day is it]?",
              "[the shop|school|the bank|work] [is closed on|ends with] {d} and [opens|starts] the next day. [which day|what day|when] is that?",
              "if yesterday was {d}, [what|which day|what day] is [it |]today?", "we [arrive|meet|leave] one day after {d}. which day is that?"],
}
DAY_BEFORE_TOLD = {
    "whole": ["[today is|today's|it is|it's|we have|now it is|now it's|it is now] {d}[,| today,|.| today.| now.] [so |and |][what|which day|what day] "
                  "[was|was it|did we have] yesterday?",
              "[if|when|given that|since|as] [today is|it is|it's|we have] {d}[| today], [what|which day|what day] [was|was it|did we have] yesterday?",
              "[tomorrow is {d}|it will be {d} tomorrow|tomorrow we have {d}][,|.] [so |][what|which day|what day] [is|do we have|is it] today?",
              "[what|which day] was yesterday if [today is|it is] {d}?", "yesterday was [what|which day] if [today is|it's] {d}?", "{d} today, yesterday was?",
              "my [party|exam|flight|trip] is the day before {d}. [which day is that|what day is it]?", "if tomorrow is {d}, [what|which day|what day] is [it |]today?",
              "we [arrive|meet|leave] one day before {d}. which day is that?", "[what|which day] is today if tomorrow is {d}?"],
}
MONTH_AFTER_TOLD = {
    "whole": ["[it is|it's|we are in|this is|this month is|now it is|we have] {d}[,|.| now,] [so |and |][what|which month|what month] "
                  "[is next|is next month|comes next|will be next|do we get next]?",
              "[if|when|given that] [it is|we are in|this month is] {d}, [what|which month] [is next month|comes next|is next]?",
              "last month [was|we had] {d}[,|.] [so |][what|which month] [is it|is this|do we have] now?", "[what|which month] is next month if [this is|it is] {d}?",
              "my [holiday|birthday|course] is the month after {d}. which [month |]is that?", "[which|what] month [do i turn to|is on the calendar page] after {d}?"],
}
MONTH_BEFORE_TOLD = {
    "whole": ["[it is|it's|we are in|this is|this month is|now it is|we have] {d}[,|.| now,] [so |and |][what|which month|what month] "
                  "[was last month|was it before|was last|came before|did we have before]?",
              "[if|when|given that] [it is|we are in|this month is] {d}, [what|which month] [was last month|was before|came before]?",
              "next month [is|will be] {d}[,|.] [so |][what|which month] [is it|is this|do we have] now?", "[what|which month] was last month if [this is|it is] {d}?",
              "my [holiday|birthday|course] is the month before {d}. which [month |]is that?"],
}
LOOSE_DAY_LIST = {
    "noun": ["[the|all|all the|the names of the|the seven] [days of the week|weekdays|days in a week|days of a week][|, in order|, from monday on]",
             "the week, day by day", "every day of the week"],
    "verb": ["[name|list|say|recite|tell me|write|go through|enumerate|read out] [the|all|all the|every one of the|the seven] "
                 "[days of the week|weekdays|days in a week|days of a week]",
             "[list|name] every day of the week", "[start|begin] with monday and [name|say|list] [all|the] days", "[take|walk] me through the [week|days of the week]"],
    "clause": ["what the [days of the week|weekdays|seven days] are[| called]", "which days [there are in|are in|make up] a week",
               "how the days of the week [are called|go]"],
    "whole": ["[monday|monday, tuesday][, and so on:| and then? name| - go on with] all days[| of the week].", "days of the week[, please|: list them|, all of them]?",
              "[which|what] [seven |]days [make up a week|does a week have]?", "what do [we|people|you] call the [seven |]days of the week?",
              "[can|could] i [hear|have|get] the [days of the week|weekdays]?", "[from monday to sunday|monday to sunday], [name|list|say] [them|the days|all of them].",
              "my [child|daughter|son] learns the [days of the week|weekdays]. [which are they|list them|what are they]?"],
}
LOOSE_DAY_COUNT = {
    "noun": ["the number of days in [a|one|the] week", "the length of a week in days"],
    "clause": ["how many days [a|one|the] week has", "how many days there are in [a|one|the] week", "how many days [make|are in|make up|go into|fit into] [a|one] week"],
    "whole": ["a week [has|is|lasts|consists of] how many days?", "how many days [long is|go into|make up|fit in|does it take for] [a|one] week?",
              "[count|number] of days in a week?", "how long is a week in days?", "is it [six|seven|five|eight] days that a week has?", "one week is how many days?",
              "days in a week?"],
}
LOOSE_DAY_PLACE = {
    "noun": ["the {n} [day|weekday] of [the|a] week", "day number {k} of the week", "the {n} of the seven days", "the name of the {n} [day|weekday][| of the week]"],
    "verb": ["[name|say|tell me|give me] the {n} [day|weekday] of [the|a] week", "[name|tell me] day number {k} of the week"],
    "clause": ["[which|what] [day|weekday] is the {n} [of|in] the week", "[which|what] day comes {n} in the week", "what the {n} day of the week is[| called]",
               "[which|what] is day number {k} of the week"],
    "whole": ["[which|what] [day|weekday] [is|comes] {n} [in|of] [the|a] week?",
              "[if monday is the first|counting from monday|starting with monday|monday first], [which|what] [day |]is the {n}[| day|one]?",
              "the week's {n} day[ is| is called|:] [what|which]?", "{n} day of the week?", "number {k} of the weekdays?"],
}
LOOSE_MONTH_LENGTH = {
    "noun": ["the [number|count] of days in [|the month of ]{d}", "the length of [|the month of ]{d}[| in days]", "the days in {d}",
             "{d}'s [length|number of days|length in days]"],
    "clause": ["how many days {d} has", "how many days there are in {d}", "how many days are in [|the month of ]{d}", "how long {d} is",
               "how long [|the month of ]{d} [lasts|is in days|goes on]", "if {d} has [30|31|28] days", "how many days {d} [is made of|counts|goes on for]"],
    "verb": ["[count|tell me|give me] the days [of|in] {d}", "[say|tell me] how [long {d} is|many days {d} has]"],
    "whole": ["does {d} have [28|29|30|31] days?", "has {d} [got |][30|31|28] days?", "is {d} [30|31|28] days long?", "[30 or 31|30 or 31 days|31 or 30]: {d}?",
              "{d}[:|,] [how many days|how long|number of days|30 or 31 days]?", "{d} [has|lasts|is|goes on for] how many days?",
              "how many days [does one|do you|do we|will i|can i] [get|have|spend|count] in {d}?", "[rent|salary|the pass] is per day. how many days has {d}?",
              "what is the last day of {d}, so how many days has it?", "how many days [until|till|before] {d} is over, from its first day?",
              "how [long|many days] [does|will] {d} [last|go on]?", "days in {d}?", "i am on leave all of {d}. how many days is that?"],
}
LOOSE_MONTH_PLACE = {
    "noun": ["the {n} month[| of the year| of a year| in the calendar]", "month number {k}", "the name of [the {n} month|month number {k}|month {k}]",
             "month {k}[| of the year]"],
    "verb": ["[name|say|tell me|give me] [the {n} month|month number {k}|month {k}][| of the year]"],
    "clause": ["[which|what] month is the {n}[| one| of the year]", "[which|what] month comes {n}[| in the year| in the calendar]", "what the {n} month is[| called]",
               "[which|what] month is number {k}", "what month number {k} is"],
    "whole": ["{n} month[| of the year]?", "[which|what] month [is|comes] {n} [in|of] [the|a] year?", "[which|what] month [has|is|gets|goes by] [the |]number {k}?",
              "on a form it says month {k}. [which one|what month] is that?", "the year's {n} month [is|is called] [what|which]?", "{k} as a month is which one?",
              "[a date|the form|my ticket] has a {k} [for|as] the month. [which is that|which month is it]?",
              "[if january is the first|counting from january|january first], [which|what] [month |]is the {n}[| month|one]?",
              "[which|what] month [stands for|belongs to] [number |]{k}?"],
}
LOOSE_MONTH_NUMBER = {
    "noun": ["the number of [|the month ]{d}", "{d}'s number[| in the year| among the months]", "{d} as a number", "the place of {d} in the [year|calendar]"],
    "clause": ["[which|what] number {d} [is|has]", "[which|what] month of the year {d} is", "[where|at which place] {d} [stands|comes] in the year"],
    "verb": ["[write|give me] {d} as a number", "[say|tell me] which number {d} is", "turn {d} into its number"],
    "whole": ["is {d} the {n} month?", "[which|what] number [do|does] [people|one|we|you] [write|use|put] for {d}?",
              "{d}[:|,] [number|which number|what number|as a number]?", "in the calendar, [which|what] number is {d}?",
              "{d} is [the how manieth|which|what number] month?", "how do you write {d} in [numbers|digits|figures]?", "[which|what] place has {d} among the months?"],
}
LOOSE_MONTH_LIST = {
    "noun": ["[the|all|all the|the names of the|the twelve|all twelve] months[| of the year| in a year| of a year|, in order|, from january on]",
             "the year, month by month", "every month of the year"],
    "verb": ["[name|list|say|recite|tell me|write|go through|enumerate|read out] [the|all|all the|every one of the|the twelve] "
                 "months[| of the year| in a year| of a year]",
             "[list|name] every month of the year", "[start|begin] with january and [name|say|list] [all|the] months",
             "[take|walk] me through the [year month by month|months]"],
    "clause": ["what the [months|months of the year|twelve months] are[| called]", "which months [there are|are] in a year",
               "how the months of the year [are called|go]"],
    "whole": ["months of the year[, please|: list them|, all of them]?", "[which|what] [twelve |]months [make up|are in] a year?",
              "what do [we|people|you] call the [twelve |]months?", "[can|could] i [hear|have|get] the [months|months of the year]?",
              "[from january to december|january to december], [name|list|say] [them|the months|all of them].",
              "my [child|daughter|son] learns the [months|months of the year]. [which are they|list them|what are they]?"],
}
LOOSE_MONTH_COUNT = {
    "noun": ["the number of months in [a|one|the] year", "the length of a year in months"],
    "clause": ["how many months [a|one|the] year has", "how many months there are in [a|one|the] year",
               "how many months [make|are in|make up|go into|fit into] [a|one] year"],
    "whole": ["a year [has|is|lasts|consists of] how many months?", "how many months [long is|go into|make up|fit in] [a|one] year?",
              "[count|number] of months in a year?", "how long is a year in months?", "is it [ten|twelve|eleven] months that a year has?", "one year is how many months?",
              "months in a year?"],
}


# ------------------------------------------------------------------------------- capitals
CAPITAL = ["what is the capital of {c}?", "what is {c}'s capital?", "what is the capital city of {c}?", "which city is the capital of {c}?", "capital of {c}?",
           "name the capital of {c}.", "tell me the capital of {c}.", "do you know the capital of {c}?", "the capital of {c}?", "what city is the capital of {c}?",
           "{c} has which capital?", "which capital does {c} have?", "can you tell me the capital of {c}?", "which is the capital of {c}?",
           "what is the name of the capital of {c}?", "{c}'s capital?", "{c}'s capital city?", "name {c}'s capital.", "tell me {c}'s capital city.",
           "do you know {c}'s capital?", "which is {c}'s capital?", "what city is {c}'s capital?", "what is the name of {c}'s capital city?",
           "how is the capital of {c} called?", "the capital city of {c}?", "{c}, capital?", "which city is the capital city of {c}?",
           "what is the capital of {c} called?", "i need the capital of {c}.", "name the capital city of {c}.", "what do you know about {c}'s capital city?",
           "can you name {c}'s capital city?", "the capital of {c} is which city?", "what would {c}'s capital be?", "*what is {c}'s capital city?",
           "*i would like to know the capital of {c}.", "*say the capital of {c}.", "*which city is {c}'s capital?", "what do they call the capital of {c}?",
           "i am looking for the capital of {c}.", "remind me of the capital of {c}.", "what city do i look for if i want {c}'s capital?",
           "*help me with the capital of {c}.", "give me the capital of {c}.", "could you name the capital of {c}?"]
LOOSE_CAPITAL = {
    "noun": ["the capital[| city] of {c}", "{c}'s capital[| city]", "the city that is the capital of {c}", "the name of [the capital of {c}|{c}'s capital]",
             "the [official |national |present |current ]capital of {c}", "the capital [that {c} has|city which {c} has]", "the capital in {c}",
             "{c}'s [main|chief] city, the capital"],
    "verb": ["[name|say|tell me|give me|recall|look up|find|identify|state] the capital[| city] of {c}", "[name|tell me|give me|find] {c}'s capital[| city]",
             "[name|tell me] the city that is the capital of {c}"],
    "clause": ["[which|what] city is the capital of {c}", "what {c}'s capital is[| called]", "what the capital[| city] of {c} is[| called]",
               "how the capital of {c} is called", "[which|what] capital {c} has", "[which|what] city {c} has as its capital", "[what|which city] is {c}'s capital",
               "what they call the capital of {c}"],
    "whole": ["{c}[:|,|.| -] [capital|what's its capital|what's the capital|which capital|capital city|name the capital|its capital, please|what is its capital city]?",
              "{c} has [what|which city] [as its|for a|as the|for its] capital?",
              "[which|what] city [serves as|acts as|is known as|happens to be|became] the capital of {c}?",
              "is {x} the capital of {c}?", "isn't {x} the capital of {c}?", "the capital of {c} is {x}, [right|isn't it|is it|or not|correct]?",
              "{n} [is flying|travels|goes|is going|wants to go|is moving] to {c}. [what is|what's|which is] [its|the] capital[| there| city]?",
              "{n} [lives|works|studies|was born|is staying] in the capital of {c}. [which city|what city|where] is that?",
              "[think of|take|consider|look at] {c}. [what|which] city is [its|the] capital?",
              "if [i|you|we] [go|travel|fly|drive] to the capital of {c}, [which city|what city] [am i in|is that|do i see|is it]?",
              "the capital of {c} [is called|goes by the name of|is named|is] what?",
              "[geography|geography quiz|quiz question|school question|map question|capitals]: {c}[?|, capital?|, please.]",
              "what do you [call|name] the capital of {c}?", "capital[ city|] of {c}[, do you know it|, please|, which is it|, what is it]?",
              "for {c}, what's the capital?", "in {c}, [which|what] city is the capital?", "[which|what] is the [capital|capital city] [in|over in|for] {c}?",
              "and {c}'s?", "and the one of {c}, the capital?", "my [map|book|globe] shows {c}. what is [the|its] capital?",
              "does {c} have a capital? [which|what is it]?", "where is the seat of [the |]government, the capital, of {c}?",
              "we are learning about {c}. what is its capital?", "{c} - its capital is [what|which city|where]?", "where do i land if i fly to the capital of {c}?"],
}


# ------------------------------------------------------------------------------- facts
ABOUT = ["what is {x}?", "what does {x} do?", "what is {x} for?", "explain {x}.", "tell me about {x}.", "describe {x}.", "{x}?", "what does {x} mean?", "help with {x}",
         "can you explain {x}?", "what do i need {x} for?", "how does {x} work?", "i have a question about {x}", "what can you tell me about {x}?", "why is there {x}?",
         "how is {x} used?", "when would i use {x}?", "why would i need {x}?", "tell me what {x} is.", "tell me what {x} does.", "i need help with {x}.",
         "what happens with {x}?", "how do i use {x}?", "when do i need {x}?", "could you explain {x}?", "what about {x}?", "show me what {x} does.",
         "*what is the purpose of {x}?", "*please describe {x} to me.", "*what do you know about {x}?"]
LOOSE_ABOUT = {
    "noun": ["the [purpose|meaning|use|point|job|role|function] of {x}", "the explanation of {x}", "what {x} does"],
    "verb": ["[explain|describe|define|clarify] {x}[| to me| briefly| in a sentence| in simple words| in short]", "tell me [|more |a bit |something |a little ]about {x}",
             "[say|tell me] what {x} [is|does|means|is for]", "help me with {x}", "explain [what {x} does|what {x} is for|how {x} works]"],
    "clause": ["what {x} [is|does|means|is for|is good for|stands for|is used for|is about|brings|can do|changes]", "how {x} [works|is used]",
               "what [i|you|people|we] [need|use|want] {x} for", "why [there is|one needs|people use|i would use] {x}", "when to use {x}", "how to use {x}",
               "what the [purpose|use|point|meaning] of {x} is"],
    "whole": ["{x}[:|,| -] [what is it|what does it do|what's that|what is it for|explain, please|what's it good for|how does it work|meaning|can you explain"
                  "|what does that do]?",
              "what's [{x} for|{x} good for|the use of {x}|the point of {x}|{x} about|the idea of {x}|{x} again]?",
              "[i came across|i found|i see|i keep seeing|someone mentioned|i read about|the docs mention|i stumbled over|there is] {x}[,|.] "
                  "[what is it|what does it do|what is that|what is it for]?",
              "[about|on|regarding|concerning] {x}[:|,] [what is it|what does it do|what can you say]?",
              "what [happens|will happen|do i get|changes] [if|when] i use {x}?", "what [would|do|can] [i|you|people|one] [use|need] {x} for?",
              "is {x} [useful|important|necessary], and what for?", "[what|so what] exactly is {x}?", "i do not [understand|get|know] {x}.",
              "what is [meant by|behind|the deal with|the story with] {x}?", "[why|when|for what] [do|should|would] i [use|need|want] {x}?", "{x}, please.",
              "does {x} do anything useful? what?", "in [short|plain words|a nutshell], what is {x}?", "[give me|i need] [some |]information [on|about] {x}.",
              "[any|some] [info|information|details|words] [on|about] {x}?"],
}
# Of greetings and of what it is: by the beginning of the answer.
LOOSE_FACTS = {
    "greeting": {
        "Hello!": {
            "whole": ["[hello|hi|hey|hiya|hello again|hi again|hey again|well hello|oh hi][,| there,|, omni,] [it's me|i'm here|i am new here|just saying hello"
                          "|are you awake|are you on|can we talk|ready to start|good to be here|first time here]",
                      "[just|i only|i just] [wanted|want] to say [hello|hi]", "[say hello|say hi] to [me|us|everyone]",
                      "[hello|hi] from [me|us|all of us|my class|the kids]"]},
        "Good morning": {
            "whole": ["[hi|hello|hey|oh|well|ah], [good morning|morning][| to you| omni| everybody]",
                      "[a very |wishing you a |have a ]good morning[ to you| to all| omni| to everyone|, dear omni]",
                      "good morning[,|.] [i am up|i'm awake|here i am|nice to see you|did i wake you|time to start|let's begin]"]},
        "Good evening": {
            "whole": ["[hi|hello|hey|oh|well|ah], [good evening|evening][| to you| omni| everybody]",
                      "[a very |wishing you a ]good evening[ to you| to all| omni| to everyone|, dear omni]",
                      "good evening[,|.] [i am home|i'm back|here i am|nice to see you|what a day|let's begin]"]},
        "Good day": {
            "whole": ["[hi|hello|hey|oh|well|ah], good [afternoon|day][| to you| omni| everybody]",
                      "[a very |wishing you a ]good [afternoon to you|afternoon to all|afternoon, omni|day to you]",
                      "good afternoon[,|.] [i'm back|here i am|nice to see you|let's begin]"]},
        "Good night": {
            "whole": ["[ok|well|all right|thanks|right|so|that was all], [good night|sleep well|night night|sweet dreams|off to bed i go|i'm going to bed"
                          "|i am off to sleep]",
                      "good night[,|.] [i am tired|i'm going to bed|see you tomorrow|sleep well|until tomorrow|i need to sleep|it's late]",
                      "[i'm|i am] going to [bed|sleep][ now|, good night|, it's late|, see you tomorrow| early today]",
                      "[wishing you a|have a|a very] good night[| to you| omni]",
                      "it's [late|bedtime|midnight][,| and] [i'm|i am] [going to bed|tired|off to bed|sleepy]",
                      "[time|it's time] [for bed|to go to bed|to sleep][, good night|, omni|, bye]"]},
        "Goodbye": {
            "whole": ["[ok|well|all right|thanks|right|so|that was all|great], [bye|goodbye|see you|see you soon|talk to you soon|take care|until next time|i'm off"
                          "|i have to go]",
                      "[bye|goodbye][,|.] [see you|thanks for everything|take care|until tomorrow|have a nice day|it was fun|i have to go|that's all]",
                      "[i'm|i am] [off|leaving|done|finished][,|.] [bye|goodbye|see you|thanks, bye|bye for now]",
                      "[i have to|i must|i need to] [go|leave|run] [now|to work|home|to school|soon][|, bye|, goodbye]"]},
        "I am fine": {
            "whole": ["[hi|hello|hey|good morning|good evening|so|and][,| omni,| there,] how [are you|are you doing|is it going|are things|do you feel|have you been"
                          "|is your day][| today| this morning| tonight| then]",
                      "how [are|'re] you [doing|feeling|keeping|getting on][| today| tonight| so far| right now]",
                      "[are you|you] [doing ok|doing well|all right|feeling good|feeling fine|in good shape]",
                      "[is all well|is everything all right|everything fine|all good|everything ok][| with you| over there]",
                      "how do you feel[| today| right now| this morning]"]},
        "You are welcome": {
            "whole": ["[thanks|thank you|many thanks|thank you so much|thanks so much][,| omni,| very much,] [that helped|that was quick|you helped me|that's great"
                          "|that is all i needed|i appreciate it|great work|perfect]",
                      "[great|perfect|lovely|super|nice|good|wonderful], [thanks|thank you|many thanks|thanks a lot]",
                      "thank you for [your help|helping|the answer|that|everything|your time|telling me|the information]",
                      "[i want to|let me|i'd like to|may i] thank you[| for that| for your help]"]}},
    "identity": {
        "I am a small demonstration model, built": {
            "clause": ["[who|what] you are", "[who|what] i am [talking|speaking|chatting] [to|with]", "what kind of [assistant|model|program|thing] [you are|this is]",
                       "who is [speaking|answering|talking] here"],
            "verb": ["introduce yourself", "describe yourself[| in a sentence| briefly]", "tell me [something |a bit |a little |more |]about yourself",
                     "present yourself", "say who you are"],
            "whole": ["you are [who|what][, exactly|]?", "and you are?", "[who|what] might you be?"]},
        "My name is": {
            "noun": ["your [|first |full |real |own ]name", "the name you go by"],
            "clause": ["what your name is", "what you are called", "[what|how] i [should|can|may|must] call you", "what [people|they|others] call you",
                       "how to address you"],
            "whole": ["you are called [what|how]?", "what do i call you?", "what name [can|should|may|do] i [use|call you|give you]?",
                      "i am [anna|tom|peter|maria]. [what's your name|and your name]?", "your name is [what|what again]?"]},
        "I can calculate": {
            "clause": ["what you can do[| for me]", "what i can [ask you|ask|use you for|do with you]", "what you are good [at|for]", "how you can help[| me]",
                       "which [questions|tasks|things] you can [answer|do|handle]", "what you know"],
            "noun": ["a list of what you can do", "your [abilities|skills|talents|features]", "an overview of your [abilities|skills|features]"],
            "whole": ["what [else |all |exactly |]can you do[| for me| for us]?", "what [sort of |kind of |]things can you [do|answer|help with]?",
                      "what are you [able to do|useful for|good for]?", "how can you be of [help|use|service]?", "i need help. what can you do?"]},
        "The Omni project": {
            "clause": ["who [made|built|created|trained|developed|programmed|designed] you", "who your [maker|creator|author|developer] is", "where you come from",
                       "who is behind you", "who you belong to", "by whom you were [made|built|trained]"],
            "noun": ["your [maker|creator|author|developer|origin]", "the [team|people|company] behind you"],
            "whole": ["[which|what] [company|team|person|lab|firm] [made|built|created|trained|developed] you?", "you were [made|built|trained|created] by [whom|who]?",
                      "who [is|was] it that [made|built|trained|created] you?", "where were you [made|built|trained|created]?"]},
        "I am not a person": {
            "clause": ["if you are [a human|a robot|a real person|a machine|alive|a person|a computer|an ai]",
                       "if there is [a human|a person|someone] [behind this|at the other end]", "if i am [talking|speaking] to [a human|a machine|a person|a robot]",
                       "if you have [feelings|a body|emotions]"],
            "whole": ["you are [a robot|a human|an ai|a machine|a real person|a computer], [right|aren't you|are you not|yes|or]?",
                      "are you [really |actually |perhaps |]a [human being|real human|living being|computer program|chat bot|chatbot|talking machine]?",
                      "[human|person|robot|machine] or [machine|computer|bot|human]?", "do you [actually |really |ever |][feel|think|sleep|eat|breathe|live]?"]},
        "I have about sixteen": {
            "clause": ["how [big|large|small] [you are|your model is|this model is]", "how many [parameters|weights] you have"],
            "noun": ["your [size|number of parameters|parameter count|number of weights]", "the [size|number of parameters] of this model"],
            "whole": ["you have how many parameters?", "are you a [large|big|small|tiny] model? how many parameters?",
                      "what is the size of [you|your network|this model]?", "parameters: how many?"]},
        "No. My ears": {
            "clause": ["if you can [hear|hear me|listen|listen to me|understand speech]", "if i can [talk|speak] to you[| aloud]", "if your ears work"],
            "whole": ["can i [talk|speak] [to you |][aloud|with my voice|instead|into the microphone]?", "do you [hear|hear what i say|hear my voice|listen]?",
                      "can you [hear|understand|follow] [what i say|my voice|spoken words|speech|someone talking]?"]},
        "No. My eyes": {
            "clause": ["if you can [see|see me|see pictures|look at photos|recognize faces]", "if your [eyes] work", "if you have [eyes|a camera]"],
            "whole": ["can you [see|look at|view|describe|recognize] [me|a photo|my picture|images|this drawing|what i am showing you|my face|what i hold]?",
                      "do you [see|have eyes|see anything|see images]?", "i [have|took|made] a [photo|picture|drawing]. can you [look at it|see it|describe it]?"]},
        "I speak English": {
            "clause": ["which languages you [speak|know|understand]", "if you [speak|know|understand] [german|french|spanish|chinese|italian|russian|another language]",
                       "how many languages you [speak|know]"],
            "noun": ["the languages [you|that you] [speak|know|understand]", "your languages"],
            "whole": ["[german|french|spanish|italian|chinese|polish|turkish|dutch|hindi|greek], do you [speak|know|understand] [it|that]?",
                      "can [we|you] [talk|speak|chat|answer] in [german|french|spanish|italian|chinese|polish|turkish|dutch|hindi|greek]?",
                      "do you [speak|understand|know] [polish|turkish|dutch|hindi|greek|korean|swedish|latin]?", "you [speak|know|understand] [which|what] languages?",
                      "is english the only language you [speak|know]?"]},
        "I have no age": {
            "clause": ["how old you are", "when you were [born|made|built|created]", "when your birthday is"],
            "noun": ["your [age|birthday|date of birth|year of birth]"],
            "whole": ["you are how old?", "how many years old are you?", "what age are you?", "are you [young|old|older than me]?",
                      "in [which|what] year were you born?"]},
        "I am small and make mistakes": {
            "clause": ["if i can [trust|believe|rely on] [you|your answers|that]", "how [reliable|good|accurate|smart|clever|intelligent] you are",
                       "if you [make|ever make] mistakes", "if you are [always right|reliable|sure|certain]"],
            "whole": ["can i [trust|believe|rely on] [that|this|your answers|everything you say]?",
                      "do you [always|ever|sometimes|often] [tell the truth|make mistakes|get it wrong|make errors]?",
                      "how [reliable|trustworthy|clever|smart|accurate] are you[| really]?", "are you [really |quite |very |]sure [about that|of that|of this]?",
                      "should i [check|double check|trust|doubt] [this|that|your answers|what you tell me]?"]},
        "No. I do not remember": {
            "clause": ["if you remember [me|my name|what i said|our last talk]", "if you know [me|my name|who i am]", "what i said [before|earlier|yesterday]",
                       "if you have a memory"],
            "whole": ["do you [still |]remember [me|my name|what i told you|our last talk|yesterday]?", "have you forgotten [me|my name|what i said]?",
                      "will you remember [me|this|my name] [tomorrow|later|next time]?", "what did i [tell you|ask you|say] [yesterday|last time|earlier|before]?",
                      "what's my name?"]},
        "I run inside": {
            "clause": ["where you run", "if you need [the internet|a network|the cloud]", "if you [run|work] [offline|locally|on my computer|in the cloud]",
                       "if my words stay here", "what you run on"],
            "whole": ["do you [work|run|function] without [internet|the internet|a network|wifi|the cloud]?",
                      "are you [connected to|on|using] the [internet|web|cloud|network]?", "do you [go|need to go|have to be] online?", "where does all this run?",
                      "is [what i say|what i type|my data] [sent|uploaded|passed on] [anywhere|to someone|to a company]?"]}},
}


# ------------------------------------------------------------------------------- everything else
NAMES = ("Napoleon;Einstein;Mozart;Shakespeare;Plato;Newton;Cleopatra;Caesar;Darwin;Picasso;Beethoven;Lincoln;Columbus;Galileo;Homer;Buddha;Gandhi;Tesla;Edison;Curie;"
         "Anna;Peter;Maria;John;Tom;Lisa;Mr. Smith;my neighbour;my brother;my sister;the president;the king;the queen;the pope;the mayor").split(";")
ASK = ["who is {n}?", "who was {n}?", "when was {n} born?", "where does {n} live?", "what did {n} say?", "how old is {n}?", "is {n} at home?", "when did {n} die?",
       "what is the meaning of {w}?", "what is a {w}?", "what does {w} mean?", "why is the {w} so {v}?", "how does a {w} work?", "where can i buy a {w}?",
       "how much does a {w} cost?", "how do i cook {w}?", "what color is the {w}?", "how do i repair a {w}?", "is a {w} bigger than a {v}?",
       "what is the difference between {w} and {v}?", "who invented the {w}?", "when was the {w} invented?", "is {w} healthy?", "what is the best {w}?",
       "where is the {w}?", "do you like {w}?", "what do you think about {w}?", "have you seen my {w}?", "what is the weather like today?", "will it rain tomorrow?",
       "what time is it?", "what is the date today?", "what day is it today?", "what is the temperature outside?", "who won the game last night?",
       "what is the price of {w}?", "what is the meaning of life?", "how far is the moon?", "how tall is {n}?", "what is the population of {c}?",
       "which language is spoken in {c}?", "who is the president of {c}?", "what is the largest city in {c}?", "how large is {c}?", "where is {c}?",
       "what is the currency of {c}?", "which country has the capital {t}?", "{t} is the capital of which country?", "what is the capital of {w}?",
       "what is the capital of {n}?", "how many days does {w} have?", "what is the flag of {c}?", "is {c} a nice country?", "what is the square root of {k}?",
       "is {k} a prime number?", "what does --{w} do?", "explain the flag --{w}.", "what is the metric vllm:{w}?", "is there any {w} left?", "should i {w} today?",
       "what should i wear?", "what is your favorite {w}?", "do {w} and {v} go together?", "where did {n} go?", "who is the best {w}?", "what happened in {c}?",
       "how do i get to {t}?", "is it {w} in {t}?", "can i {w} here?", "why are you {w}?", "who made the {w}?", "what is the name of {n}?", "when is the next {w}?",
       "how do you make {w}?", "what is inside a {w}?", "how long does a {w} live?", "what sound does a {w} make?", "does {n} like {w}?", "is {n} in {t}?",
       "what is the news?", "what is the news about {n}?", "who is at the door?", "what is on television?", "how many people live in {t}?", "what is the {w} of {c}?",
       "what is the {w} of {n}?", "what is the highest mountain?", "how fast is a {w}?", "what is the opposite of {w}?", "what rhymes with {w}?",
       "how many letters does {w} have?", "what is a synonym for {w}?", "where do {w} come from?", "did you know that {n} is {w}?", "is the earth round?",
       "what is love?", "what are {w} made of?", "how deep is the sea?", "what is the {w}?", "which {w} should i choose?", "what will happen to {n}?", "was {n} right?",
       "how is {n}?", "how is the {w}?", "what is quantum {w}?", "why do people {w}?", "can birds {w}?", "how many {w} are there?", "who wrote {w}?",
       "tell me about {w}.", "*who has seen {n}?", "*where can i find {w}?", "*what is the history of {w}?", "*is there a {w} in {c}?", "*how heavy is a {w}?",
       "*which {w} is the best?", "*why did {n} {w}?", "*when does the {w} open?", "how many calories are in {w}?", "who is your favorite singer?",
       "what is for dinner tonight?", "when does the bus to {t} leave?", "is the shop around the corner still open?", "how do i get rid of {w}?",
       "what is the fastest way to {t}?", "will {n} come to the party?", "what did {n} eat for breakfast?", "why is the sky blue?", "how do airplanes fly?",
       "who discovered {w}?", "what is the phone number of {n}?", "how much money does {n} have?", "what is on the menu today?", "which film should i watch?",
       "is it going to snow in {t}?", "what is the best restaurant in {t}?", "how do i lose weight?", "why does my {w} hurt?", "what is my bank balance?",
       "who will win the election in {c}?", "where did i put my keys?", "what do {w} eat?", "how hot is the sun?", "*what should i cook with {w}?",
       "*who is older, {n} or my {w}?"]
DO = ["write a poem about {w}.", "write a story about {n}.", "tell me a joke.", "tell me a story.", "sing a song.", "play some music.", "write a letter to {n}.",
      "translate {w} into french.", "translate this into german: {w}", "open the {w}.", "turn on the {w}.", "call {n}.", "send a message to {n}.", "buy a {w}.",
      "set an alarm for {k}.", "remind me of the {w}.", "draw a {w}.", "write a program that sorts {w}.", "book a flight to {t}.", "show me a picture of {w}.",
      "search the web for {w}.", "summarize the book about {w}.", "play {w}.", "sing {w}.", "write a song.", "write me an email about {w}.", "make a joke about {n}.",
      "tell me a story about a {w}.", "tell me something about {n}.", "read the newspaper.", "read my messages.", "read a book to me.", "draw a picture of {n}.",
      "paint the {w}.", "invent a {w}.", "invent a game with {w}.", "compose a song.", "order a pizza.", "call a taxi.", "call my mother.", "close the {w}.",
      "clean the {w}.", "switch off the light.", "turn off the {w}.", "dance with {n}.", "cook some {w}.", "teach me {w}.", "help me with my {w}.", "fix the {w}.",
      "find me a {w} in {t}.", "look up {w}.", "show me the {w}.", "send {n} a {w}.", "translate {w}.", "describe a {w}.", "give me some {w}.", "write code for a {w}.",
      "plan a trip to {c}.", "reserve a table in {t}.", "wake me up at {k}.", "start the {w}.", "stop the {w}.", "pay the {w}.", "order a {w}.",
      "give me a recipe for {w}.", "find {n}.", "write an essay about {w}.", "solve the puzzle of the {w}.", "explain {w} to a child.", "make a list of {w}.",
      "*write a song about {w}.", "*invent a story about {n} and a {w}.", "*order a taxi to {t}.", "*draw {n} with a {w}.", "*read me the news.",
      "*compose a tune for {n}.", "write a letter of application.", "order some flowers for {n}.", "set a timer for {k} minutes.", "put {w} on my shopping list.",
      "take a photo of {n}.", "make me a cup of tea.", "print the {w}.", "install the {w}.", "log me in.", "lock the front door.", "turn up the heating.",
      "make me laugh.", "tell {n} that i am late.", "cancel my appointment with {n}.", "find the cheapest flight to {c}.", "write my homework about {w}.",
      "correct this essay about {w}.", "show me the way to {t}.", "download the {w}.", "delete my emails.", "add {n} to my contacts.", "water the plants.",
      "play a game with me.", "rap about {w}.", "*remind me to call {n}.", "*put the {w} into my calendar."]
# What it cannot know, by topic, and what it cannot do.
PLACES = ("Texas;California;Bavaria;Florida;Ontario;Quebec;Queensland;Tuscany;Normandy;Catalonia;Siberia;Hawaii;Alaska;Bohemia;Andalusia;Atlantis;"
          "Narnia;Mordor;Mars;Europe;Africa;Asia;the moon;the ocean;the Roman Empire;Wonderland").split(";")
TIME = "[|today|tomorrow|tonight|now|right now|this week|this evening|at the moment|on {d}|this weekend|next week|in {t}|here|in {c}]"
PAST = "[|yesterday|last night|today|on {d}|last week|last year|this morning|in {k}|in {c}|in {t}]"
BODY = "[head|back|knee|tooth|stomach|foot|arm|left eye|ear|throat|neck]"
FOOD = "[pizza|rice|pancakes|soup|eggs|a cake|bread|pasta|salmon|a steak|curry|potatoes|an omelette|coffee|{w}]"
MINE = "[my keys|my phone|my wallet|my glasses|my bag|my umbrella|my passport|my car|the remote|my book|my {w}|my other shoe]"
GAME = "[football|soccer|basketball|tennis|chess|baseball|hockey|cricket|the game|the match|the race|the world cup|the final|the championship|the olympics|the {w} cup]"
LOOSE_ASK = {
    "whole": [
        # weather
        f"[is|isn't|was] it [raining|snowing|sunny|cold|warm|windy|foggy|hot|cloudy|stormy|freezing|humid|wet] [outside |out there |]{TIME}?",
        f"[will|does|can|could|should] it [rain|snow|freeze|clear up|thunder|hail|get cold|get warmer|stay dry] [much |a lot |]{TIME}?",
        f"how [warm|cold|hot|windy|humid|wet|sunny] [is it|will it be|was it|does it get] {TIME}?",
        f"[what's|what is|how's|how is|what about] the [weather|forecast|temperature|weather forecast|sky|wind] [like |][outside |]{TIME}?",
        f"do i need [an umbrella|a coat|a jacket|sunglasses|gloves|rain boots|sunscreen|a hat] {TIME}?",
        "should i [take|bring|wear] [an umbrella|a coat|gloves|a scarf|boots|a {w}] [today|tomorrow|to {t}]?", f"what will the [weather|temperature] be [like |]{TIME}?",
        f"is [a storm|a hurricane|rain|snow|frost|bad weather|a heat wave] coming {TIME}?", f"[weather|forecast|temperature] {TIME}[, please|]?",
        "is the sun [shining|out] [today|now|in {t}]?",
        # time and dates
        "what time [is it|do you have|is it now|is it in {t}|is it in {c}|does your clock say]?",
        "what's the [time|date|hour|exact time|current time][| now| right now| today| in {t}| there]?",
        "[which|what] [day|month|year|date|season|century|week] [is it|do we have|is it today|are we in|is today|is this][| now| right now]?",
        "[do you have|have you got|can you tell me|could you check] the [time|date|exact time]?", "how late is it?",
        "when is [easter|christmas|thanksgiving|my birthday|the next full moon|the next holiday|mother's day|the match|the meeting|the next election|halloween"
            "|your next update|the party]?",
        "how [many days|many weeks|long] [is it |are there |][until|till|to] [christmas|easter|my birthday|summer|the weekend|the holidays|new year|spring]?",
        "when does [the sun rise|the sun set|summer begin|winter start|the shop open|the bank close|the film start|school end|the show begin|the {w} start]?",
        "[what|which] day [is|was] [christmas|my birthday|easter|the party|the wedding|the fourth of July] [this year|next year|last year|in {k}]?",
        "how many [hours|minutes|seconds] are in a [day|week|year]?", "how many [days|weeks] are in a year?",
        "is [today|tomorrow|this] a [holiday|leap year|school day|working day]?", "in which month is [my birthday|easter|the carnival|your {w}]?",
        # news and sports
        "what['s| is] [in the news|the latest news|new in {c}|happening in {c}|going on in {t}|happening in the world|the headline today|trending]?",
        f"what happened [to {{n}}|at the {{w}}|in the world|to the economy|in parliament|with the strike] {PAST}?",
        "any news [about|on|from] [{n}|{c}|the {w}|the election|the war|my team]?",
        "[who is|who's] [winning|ahead|leading] in [the election|the polls|{c}|the race|the league]?",
        f"who [won|lost|watched|scored in|played in|hosted|cancelled] {GAME} {PAST}?", f"what was the [score|result|final score|outcome] [of|in] {GAME} {PAST}?",
        f"did [my team|{{n}}|{{c}}|we|they|the {{w}}s|the home team] [win|lose|score|play|qualify] {PAST}?",
        "who [plays|is playing|fights|will win|is going to win] [tonight|tomorrow|on {d}|the final|the cup|next]?", f"how did {GAME} [end|go|finish] {PAST}?",
        f"when [is|starts|ends] {GAME}?", "[how many goals|how many points|how many medals] did [{n}|{c}|my team] [score|get|win]?",
        # traffic and travel
        f"how['s| is] [the traffic|the road|traffic] [to {{t}}|in {{t}}|to work|to the airport|on the motorway|downtown] {TIME}?",
        "is [there a traffic jam|there a delay|the road to {t} closed|my train late|my flight on time|the bridge open|the metro running|the airport open] "
            "[today|now|this morning]?",
        "when [does|will] the [next |last |first |][train|bus|ferry|plane|tram|flight] [to {t} |from {t} |home |][leave|arrive|come|go|depart]?",
        "how [far|long] is [it|the drive|the flight|the way|the walk] [to {t}|from here to {t}|to the station|to the sea|to {c}]?",
        "how long does it take to [get|drive|fly|walk|go] to [{t}|{c}|work|the moon|the airport]?",
        "which [bus|train|road|exit|platform|gate] [do i take|goes|is it|leads] to {t}?",
        "where [is|can i find|do i find] [the nearest|the closest|a good|a cheap] [station|hospital|bank|restaurant|petrol station|toilet|hotel|shop|pharmacy|{w}]?",
        "is there [a good|a cheap|an open|any] [restaurant|hotel|bakery|cinema|shop|doctor|parking spot] [near me|around here|in {t}|nearby|close by]?",
        "do i need a visa for {c}?", "is it [safe|expensive|nice|warm] in [{c}|{t}]?", "what should i [see|visit|do|eat] in [{t}|{c}]?",
        # money and shopping
        "[what|how high] is the [stock price|share price|exchange rate|price] of [{n}|{w}|gold|oil|the dollar|bitcoin|milk]?",
        "how much [is|are|does|do] [a {w}|the {w}|a new car|a house in {t}|milk|bread|gold|petrol|a flight to {t}|these shoes] [cost|today|now|worth]?",
        "how is the [stock market|economy|euro|dollar] doing?", "what is [a dollar|a euro|my house|this ring|bitcoin|my old {w}] worth[| today| in euros]?",
        "how much [money|debt|tax|salary|pension] do i [have|have left|owe|pay|get]?",
        "where can i [buy|get|find|rent|sell] [a {w}|a used car|fresh fish|cheap tickets|a {w} in {t}|good shoes]?",
        "is the [shop|market|bakery|bank|pharmacy|library|supermarket|museum] [open|closed|busy] [now|today|on {d}|tomorrow]?",
        "should i [buy|sell|rent|keep|return] [a house|my shares|gold|a new phone|this {w}|a {w}]?",
        "which [phone|laptop|car|washing machine|bank|insurance|{w}] [should i buy|is the cheapest|is best|do you recommend]?",
        # what only the asker can know
        f"where [did i leave|did i put|did i park|are|is] {MINE}?",
        "who [called|visited|wrote to|is looking for|texted|emailed|likes|misses] me[| today| yesterday| just now]?",
        "what's my [password|phone number|address|blood type|favourite colour|bank balance|shoe size|wifi password|pin|weight]?",
        "when is my [dentist appointment|mother's birthday|next meeting|flight|holiday|exam|wedding day|interview]?",
        "does [she|he|my boss|my cat|{n}|my neighbour] [love|like|trust|hate|miss|know] [me|him|{n}|us]?",
        f"what did [i|we|he|she|{{n}}] [eat|dream|do|buy|wear|cook|win|promise|forget] {PAST}?", "how old [am i|is my {w}|is {n}|is my dog|is the pope|is the universe]?",
        "where am i[| now| going]?", "what am i [wearing|thinking|holding|doing|looking at]?",
        "how many [brothers|children|cats|friends|cousins|books|shoes|{w}s] do i have?",
        "what should i [cook|wear|do|read|watch|eat|say to {n}|buy for {n}|give {n}|name my dog|call my cat] [today|tonight|tomorrow|now]?",
        "do i look [good|tired|old|happy|like {n}] [today|in this {w}|in red]?",
        "[will i|am i going to] [be rich|get the job|pass the exam|find love|win the lottery|be famous|meet {n}]?",
        "who is [at the door|on the phone|my best friend|my neighbour|in my kitchen|that man|my dentist|calling]?",
        "is [the stove|the door|the light|my phone|the heating|the window|the {w}] [still |][on|off|locked|open|charged|broken]?",
        "how much [battery|petrol|milk|time|coffee|bread] [is left|do i have|do we have]?",
        "is [anyone|my wife|my son|{n}|the dog] [at home|asleep|in the garden|at work|hungry]?",
        "did [the mail|my parcel|the plumber|{n}|my package|the bus] [come|arrive|call|leave] [today|yet|already]?",
        # opinions
        "what do you [think|say|feel|believe] about [{n}|{w}|{c}|the government|the election|modern art|religion|love|war|money|football|my plan]?",
        "what do you think of [{n}|{w}|{c}|this song|my new shirt|the new film|him|them]?",
        "is [{n}|{c}|{t}|the new film|that book|chess|{w}] [good|bad|fun|boring|worth it|overrated|dangerous|better than {w}|expensive]?",
        "do you [like|enjoy|prefer|hate|love|want] [jazz|pizza|tea|cats|football|summer|reading|chocolate|{w}|{n}|{c}]?",
        "[what's|what is|who is|which is] your [favorite|favourite|preferred|least favorite] [film|colour|color|food|song|book|animal|season|team|actor|city|{w}]?",
        "who [is|was] the [greatest|best|worst|richest|fastest|most famous|tallest|oldest|funniest] [player|singer|man|woman|king|painter|writer|actor|president"
            "|runner|{w}] [ever|of all time|in {c}|in the world|alive|]?",
        "[which|what|who] is better, [{w} or {v}|tea or coffee|cats or dogs|summer or winter|android or iphone|{c} or the sea]?",
        "[tea or coffee|cats or dogs|summer or winter|{w} or {v}|red or blue|beer or wine|sea or mountains]?",
        "should i [marry {n}|quit my job|move to {t}|study law|believe in god|trust {n}|get a dog|call {n}|vote for {n}]?",
        "what is the meaning of [life|love|happiness|freedom|this dream|art]?", "is there [a god|life on Mars|life after death|such a thing as luck|true love|magic]?",
        # health
        f"why does my {BODY} [hurt|ache|itch|feel numb|burn|swell] [so much|again|today|at night|]?",
        "[how do i|how can i|how does one] [cure|treat|stop|prevent|get rid of] [a cold|a headache|the flu|hiccups|a cough|back pain|acne|a fever|a sunburn|{w}]?",
        "what [helps|works|is good|can i take] [against|for] [a headache|a sore throat|a cold|stress|insomnia|the flu|a hangover|a burn]?",
        "is [{w}|coffee|sugar|milk|garlic|red wine|this mushroom|chocolate] [healthy|poisonous|good for me|bad for the heart|fattening|safe for dogs]?",
        "[do|should] i [see|need|call] a doctor?",
        "how [many|much] [pills|aspirin|water|sleep|vitamins|exercise|calories] [should i take|do i need|is too much|is healthy]?",
        "am i [ill|pregnant|overweight|depressed|too thin|allergic to {w}|contagious]?", "i have a [fever|cough|rash|headache|broken toe|toothache]. what should i do?",
        # food
        f"how long [do|should|must] i [boil|bake|fry|cook|grill|steam] {FOOD}?", f"[how do i|how do you|how does one|how can i] [make|cook|bake|prepare|reheat] {FOOD}?",
        f"what [goes|tastes good|can i serve|do i eat] with {FOOD}?", "what is in [a lasagne|the soup|sushi|gravy|a {w} salad|this cake]?",
        f"[recipe|a recipe|do you have a recipe] for {FOOD}[, please|]?", "what's for [dinner|lunch|breakfast|dessert][| today| tonight| tomorrow]?",
        # knowledge
        "who [wrote|painted|invented|discovered|composed|directed|built|founded|designed|sang|filmed|sculpted] [hamlet|the mona lisa|the telephone|america"
            "|the eiffel tower|the magic flute|the bible|faust|the light bulb|penicillin|the pyramids|rome|star wars|the {w}|yesterday]?",
        "when [did|does] [the war|rome|the {w}|world war two|the french revolution|the ice age|the concert|slavery] [begin|end|fall|start|happen]?",
        "when was [{n} born|the {w} invented|rome founded|the internet invented|the wall built|the first car made|{n} king|the battle of {t}]?",
        "[what's|what is] the [speed of light|boiling point of water|chemical symbol for gold|formula of salt|mass of the earth|distance to the sun"
            "|melting point of iron|atomic number of oxygen|area of {c}|age of the universe|speed of sound|diameter of Mars]?",
        "how [tall|high|deep|long|old|heavy|big|wide|fast] [is|was] [mount everest|the eiffel tower|the nile|the pacific|an elephant|a blue whale|the great wall|{n}"
            "|a {w}|the moon|light|a cheetah|the {w}]?",
        "why [is the sky blue|is the sea salty|do cats purr|do leaves fall|is grass green|do we dream|is fire hot|do birds sing|is the {w} {v}|are you {w}"
            "|do stars twinkle]?",
        "how [do birds fly|do planes fly|does a car work|does the heart work|does rain form|do magnets work|does a fridge work|do fish breathe|do volcanoes erupt"
            "|does a {w} work]?",
        "[what's|what is|which is] the [largest|smallest|longest|highest|deepest|oldest|fastest|rarest|most beautiful|second largest] "
            "[ocean|animal|river|city|mountain|country|planet|lake|building|bird|{w}] [in the world|on earth|in {c}|of all|ever|]?",
        "how many [planets are there|legs does a spider have|bones do we have|continents are there|stars are in the sky|countries are there in Africa"
            "|people live on earth|teeth has a dog|strings has a guitar|players are in a team|oceans are there|wonders of the world are there|{w}s are there]?",
        "what [causes|produces|contains|eats|kills|is] [thunder|gravity|rust|{w}|cancer|a rainbow|inflation|a black hole|an atom|democracy|photosynthesis|a {w}]?",
        "what [colour|color|shape|size] is [the sky|a banana|the {w}|the sun|grass|a {w}|my car]?",
        "[what|which] animal [is the fastest|lays eggs|sleeps the most|eats {w}|lives longest]?",
        "who [is|was] [the first man on the moon|the president of {c}|the king of {c}|the mayor of {t}|{n}|the author of {w}|the inventor of the {w}|the richest man"
            "|the boss of {n}]?",
        "[where|when|how|why] did {n} [die|live|go|fall|win|marry|begin|write the {w}|disappear]?",
        "is [the earth flat|a tomato a fruit|{n} dead|{n} married|water wet|a whale a fish|glass a liquid|the moon made of cheese|Pluto a planet"
            "|gold heavier than lead]?",
        "can [dogs|cats|birds|fish|humans|bees|plants|pigs|{w}s] [see colours|swim|fly|think|feel pain|count|talk|eat chocolate|sleep standing up]?",
        "where do [babies|potatoes|polar bears|tomatoes|penguins|{w}s|rivers] come from?",
        "where [is|are] [the {w}|the Alps|mount everest|{c}|{t}|the titanic|the {w} museum|{n} buried|the amazon]?",
        # words
        "what does {w} mean[| in english| in french| exactly]?", "how do you say {w} in [french|german|spanish|latin|chinese|another language]?",
        "what's the [french word for|german word for|spanish for|opposite of|plural of|past tense of|origin of|definition of|synonym of|rhyme for] {w}?",
        "[another|a different|a better|a fancy] word for {w}?", "[is|was] {w} a [noun|verb|word|real word|swear word]?", "where does the word {w} come from?",
        "use {w} in a sentence[, how|]?", "how many [letters|vowels|syllables] [has|are in] {w}?", "what does {w} {v} mean?", "define {w}.",
        "the [definition|meaning|translation] of {w}[, please|]?",
        # more than arithmetic
        "[what's|what is|find|calculate] the [square root|cube root|factorial|logarithm|sine|cosine|prime factors] of {k}?",
        "is {k} [a prime number|prime|even|odd|a square number|divisible by three|a lucky number]?",
        "what is {k} in [binary|roman numerals|hexadecimal|words in french]?", "[what's|what is] {k} to the power of {k}?",
        "solve x [plus|minus|times] {k} [is|equals] {k}.", "what is [pi|infinity|the golden ratio|a derivative|an integral|the largest prime|the next lottery number]?",
        "convert {k} [miles|dollars|pounds|degrees|inches] [to|into] [kilometres|euros|kilos|celsius|cm].", "roll a [die|dice] [for me|]?",
        "how many [miles|kilos|inches|litres] [are|is] {k} [kilometres|pounds|cm|gallons]?",
        # countries, but not their capitals
        "[what's|what is|tell me] the [population|currency|language|president|king|queen|flag|area|national anthem|highest mountain|biggest river|national dish"
            "|largest city|size|history|prime minister|climate|second city|calling code] of {c}?",
        "[which|what] [language|currency|money|religion|alphabet] do [they|people] [have|use|speak] in {c}?",
        "[which|what] countries [border|surround|are next to|are larger than] {c}?",
        "how many [people live|inhabitants are there|cities are|lakes are|states are|islands are] in [{c}|{t}]?",
        "[what's|what is|name|tell me|which city is] the capital of {r}?", "{r}'s capital?", "{t} is the capital of [what|which country]?",
        "[what|which] country has {t} [as its|for a] capital?", "[how big|how rich|how old|how far away|how large] is {c}?",
        "is {c} [bigger|richer|older|warmer|larger] than [{r}|the moon|Texas]?", "is {c} [in Europe|in Asia|in Africa|an island|a kingdom|a democracy|rich|at war]?",
        "[which|what] is the capital of the [{w}s|world|universe|sea|bees|internet]?",
        # machines
        "[how do i|how can i|how should i] [reset|update|install|fix|charge|clean|connect|unlock|format|restart] [my phone|windows|the printer|my laptop|my {w}"
            "|the router|the dishwasher|my watch|my car]?",
        "why is my [computer|phone|internet|car|printer|fridge|{w}] [so slow|broken|making noise|leaking|not working|so hot]?",
        "what is the [wifi password|best laptop|newest phone|best browser|cheapest tablet|fastest car|latest version of {w}]?",
        "is [facebook|the internet|youtube|my bank|the server of {n}] down?",
        "how do i [write a letter|tie a tie|change a tyre|plant {w}|dance|swim|whistle|get rich|win at chess|find friends|learn {w}|knit a {w}|ride a horse"
            "|sleep better|lose weight|train my dog|grow {w}]?",
        # idle remarks
        "my [dog|cat|car|boss|brother|{w}|neighbour|phone] [is ill|ran away|is broken|is angry|died|is funny|was stolen|is lost|is new] [again|today|]",
        "i [lost|broke|bought|found|sold|saw|dropped|painted|ate] [my|a|the|your] [{w}|phone|car|house|dog|ring|bike] [yesterday|today|last week|]",
        "i [am|feel] [sad|lonely|hungry|bored|sick|in love|cold|thirsty|angry|nervous|lost|rich|{w}] [today|again|]",
        "[{n}|he|she|my aunt] [is|was|looks|seems] [very|so|a bit|too] [{w}|rich|old|tall|funny|late|famous]",
        "[i had|we had|they had] [{w}|soup|fish|toast|a fight|a party|visitors] [for lunch|last night|yesterday]",
        "[i think|i believe|i heard|they say|someone said] [that |]{n} is [{w}|rich|dead|right|crazy|famous|in {t}]"],
}
LOOSE_DO = {
    "verb": ["[play|put on|start|stop|pause|skip|turn up] [some |the |my |][music|jazz|radio|song|songs by {n}|rock|playlist|film|video|{w}]",
             "[turn|switch] [on|off|up|down] the [light|lights|tv|heating|radio|oven|fan|{w}|alarm|lamp|air conditioning|volume]",
             "[set|start|cancel|stop] [a timer|an alarm|the alarm|a reminder|the stopwatch|a timer for {k} minutes][| please| for {d}| for {k}]",
             "[call|ring|phone|text|email|message|invite|thank|greet|visit|wake] [{n}|my mother|my boss|the police|a taxi|the doctor|a plumber|mum|my wife]",
             "[send|write|forward|post|mail] [an email|a message|a letter|a postcard|flowers|a text|an invitation|a {w}] to [{n}|my boss|my mother|everyone|the bank"
                 "|my team]",
             "[order|buy|get|fetch|bring|sell|deliver] [me |us |][a pizza|some milk|a taxi|flowers|a {w}|two tickets|groceries|a coffee|sushi|new shoes|bread]",
             "[book|reserve|cancel|find] [a flight|a table|a hotel|a room|a seat|a train|tickets|a doctor] [to {t}|in {t}|for two|for {d}|for {n}|for tomorrow]",
             "[write|compose|invent|make up|draft] [a poem|a story|a song|an essay|a speech|a letter|a limerick|a haiku|a joke|an article|a fairy tale|a rap|a cv"
                 "|a toast] [about|for|on] [{n}|{w}|{c}|my dog|love|the {w}|spring|a {w} and a {v}]",
             "[tell|read|give] me [a joke|a story|a riddle|a fairy tale|a poem|something funny|the news|a secret|a bedtime story|some gossip|my horoscope"
                 "|a quote by {n}|a fun fact]",
             "[sing|hum|whistle|rap|dance|play] [a song|something|for me|a lullaby|happy birthday|the national anthem of {c}|the blues|{w}]",
             "[translate|put|turn] [this|{w}|my letter|the {w}|that sentence|my cv] [into|to] [french|german|spanish|latin|japanese|chinese]",
             "[open|close|lock|clean|repair|fix|paint|wash|move|sell|hide|throw away|unlock|install|delete|print|download|scan|empty] "
                 "[the door|my car|the window|the {w}|my emails|the garage|this file|a {w}|the fridge|my photos|the printer]",
             "[draw|paint|sketch|show me|photograph] [a picture|a cat|a house|{n}|the {w}|a map of {c}|a {w}|my dog|a tree|the sea|a photo of {n}|a graph]",
             "[search|look up|google|browse|check|find] [the web|the internet|my mail|{w}|{n}|online|the weather|my calendar|the news|the bus times"
                 "|wikipedia][| for {w}| for me]",
             "[summarize|review|correct|check|proofread|improve|shorten|analyse|rewrite] [my essay|this text|the book|this article|my homework|my code|the {w}"
                 "|a film|my {w}|chapter {k}]",
             "[write|debug|fix|compile|explain|translate] [a program|some code|a script|a function|a website|a game|my python|an app] "
                 "[that sorts {w}|for {w}|for me|in java|in python|with {w}|]",
             "[remind|warn|wake|ask|tell] me [to call {n}|of the {w}|about the meeting|to buy milk|at {k}|on {d}|to water the plants|before {d}|when it rains]",
             "[add|put|write|note] [{w}|milk|eggs|a meeting|{n}|bread|the dentist] [to|on|in|into] my [shopping list|calendar|notes|diary|contacts|to do list]",
             "[cook|make|bake|prepare|brew] [me |us |][dinner|breakfast|a cake|coffee|tea|some {w}|lunch|a sandwich|soup]",
             "[help me with|do|finish|solve] my [taxes|homework|crossword|sudoku|{w}|thesis|physics|chemistry|job application]",
             "[teach|show|train] me [to dance|karate|french|chess|to swim|guitar|{w}|to cook|how to paint|yoga]",
             "[plan|organize|arrange] [my wedding|a party|a trip to {c}|my week|a birthday|a holiday in {t}|a meeting with {n}|my day]",
             "[give|lend|send|pay|transfer] [me|him|{n}|my brother] [some money|{k} dollars|a {w}|a hug|your car|a present|advice about {w}]",
             "[recommend|suggest] [a film|a book|a restaurant in {t}|a present for {n}|a song|a hotel|a name for my cat|a good {w}|something to cook]",
             "[guess|predict|imagine|bet] [my age|the future|the lottery numbers|what i am thinking|who wins|my weight|tomorrow's weather|the winner of {k}]",
             "[take|shoot|record] [a photo|a picture|a video|a selfie|a note|my voice|a screenshot][| of {n}| of me| of the {w}]",
             "play [a game|chess|tic tac toe|cards|hide and seek|hangman|a quiz] with me", "act [like|as] [{n}|a pirate|a doctor|my teacher|a {w}|a cat]",
             "pretend to be [{n}|a king|my friend|a {w}|a dog]", "[flip|toss] a coin", "[pick|choose|give me] [a card|a random number|a colour|a name|a {w}|a winner]",
             "[vacuum|mop|sweep|dust|clean] the [floor|kitchen|house|carpet|stairs]", "[drive|take|bring|follow|carry] me [home|to {t}|to the airport|to work|there]",
             "[explain|describe] [{w}|the war|the theory of relativity|the rules of chess|quantum physics|evolution|the {w} of {c}|inflation] "
                 "[to me|to a child|in detail|simply|]"],
}
AUDIO = ["what do you hear?", "what did i say?", "please answer.", "listen to this.", "what is this?", "can you hear this?", "answer my question.",
         "please transcribe this.", "who is speaking here?", "what is said in this recording?", "here is a recording.", "do you understand this?",
         "i recorded this for you.", "what does this mean?"]
LARGE = ["what is {a} {o} {b}?", "{a} {s} {b}", "how much is {a} {o} {b}?", "{a}{s}{b}", "calculate {a} {o} {b}."]
AGAIN = ["[|please ][repeat|say|tell me] [that|it|this][| again| once more| one more time| please]",
         "[|please ][repeat|say|tell me] [your answer|your last answer|the answer|what you said][| again| once more| please]",
         "[can|could|would|will] you [repeat|say] [that|it|your answer|what you said][| again| once more| one more time| please]",
         "[once more|again|another time|say again][| please]", "what [did you say|was that|was your answer|did you answer][| again| just now]",
         "[pardon|pardon me|come again|i beg your pardon]",
         "i [did not|didn't|didn't quite|could not|couldn't] [hear|catch|get|understand] [that|it|your answer|what you said|your last words|the last bit]",
         "[can|could|would|will] you [please |kindly |][say|repeat|give me|tell me] [that|it|the answer|your last answer|what you just said] "
             "[again|once more|another time|one more time|slowly|a second time]",
         "i [missed|lost|forgot] [that|it|your answer|what you said][|, say it again|, again please|, please repeat it]",
         "[run that by me|go over that|give me that|let me hear that|let me have that|say that for me|tell me that] [again|once more|a second time]",
         "[what was that|what did you just say|what was your last answer|what did you tell me|what have you just said|how was that][| again| please]",
         "i [want|need|would like|'d like] to hear [that|it|your answer] [again|once more]", "repeat your [last |]words",
         "[sorry|excuse me|oh], [i missed that|what was that|can you repeat|could you say that again|say again]",
         "[again, but slowly|same again|once again|encore|come again|the same once more|that again]"]
AGAIN_HELD = ["one more time", "could you repeat your answer", "say your answer again"]


# ------------------------------------------------------------------------------- dialogues
SYSTEMS = ["You are a helpful assistant.", "You are Omni, a friendly voice assistant.", "Answer briefly.", "You are a virtual voice assistant with no gender or age.",
           "Be polite and answer in one sentence.", "You are a pirate. Talk like one.", "You speak with children.", "Keep it short.", "You are an expert in everything.",
           "Reply in English.", "You are a smart home assistant. Do not use markdown.", "Always be honest.", "Answer the questions of the user."]
