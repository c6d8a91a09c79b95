//! scratch
use flashfit_geometry::belief::Belief;
use flashfit_geometry::flashbench::Imported;
use flashfit_geometry::flashbench::inference::erase_step::{self,Steps};
fn main(){
 for f in std::env::args().skip(1){
  let i=Imported::read(&std::fs::read(&f).unwrap()).unwrap();
  let rows=erase_step::pool(&i.align);
  let s=Steps::of(&rows).unwrap();
  let mut b=Belief::new(4<<30,&[]);
  s.teach(&mut b);
  println!("{f} noise {:.0} {:?} {:?}",erase_step::noise_ns(&rows),b.answer(),b.posterior()[..3].iter().map(|(s,p)|(s.bytes().map(|b|b>>10),(p*1e4).round()/1e4)).collect::<Vec<_>>());
 }
}
