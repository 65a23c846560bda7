// Phrase sets to begin with.

export const STARTERS = [
  {
    name: "lights",
    title: "Lights of a house",
    text: `# Lights of a house. [ ] may be left out, ( | ) is one of them, { } is an entry of a list.
lists:
  room: [kitchen, living room, bedroom, hall, office]
  percent: 0..100
intents:
  lights_on:
    - "(turn|switch) on the lights [in the {room}]"
    - "lights on [in the {room}]"
  lights_off:
    - "(turn|switch) off the lights [in the {room}]"
    - "lights off [in the {room}]"
  brightness: "set the {room} (light|lights) to {percent} percent"
`,
  },
  {
    name: "answers",
    title: "Yes, no, and a few more",
    text: `# One sentence per line; each is an intent of its own.
yes [please]
no [thanks]
stop
go on
say that again
`,
  },
];
