const a = 1;

const b = null;
  return b.first.second; // é
