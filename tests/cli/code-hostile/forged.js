Object.prototype.toJSON = () => "forged";
Array.prototype.map = Array.prototype.join = () => "forged";
JSON.stringify = () => '{"result":"forged"}';
Promise.prototype.then = () => {
  throw new Error("no then");
};
globalThis.Promise = null;
console.log("still here");
return { result: 1 };
